package experiments

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/train"
)

// JoinOptions says which rank of which run a process is.
type JoinOptions struct {
	Identity Who
	// Listen is where this process listens. Default: where it reaches the coordinator
	// from, any free port; where this process leads, the coordinator's address. Port 0
	// is the coordinator's there.
	Listen    string
	Advertise string              // where the others reach this process, host or host:port; default: where it is seen
	Token     string              // the run's secret, see grpcnet.CheckToken
	TLS       *tls.Config         // certificates of files; nil: those that follow from Token, beyond loopback
	Insecure  bool                // all ranks speak plain text
	Timeout   time.Duration       // of the wait for all ranks. Default a minute
	Getenv    func(string) string // looks up GOMAXPROCS; nil: it is not set
	Places    config.Places
	Stopping  func() bool
	Requeue   *atomic.Bool // see Options
	Launched  bool         // by a process that stops it: it waits for the others all the same
	// Folder gives that of the run, where this rank sees it; "": it does not. Who asks
	// the rank to stop asks the run, through the folder.
	Folder func() string
	Logf   func(format string, args ...any)

	again func(lost []*comm.PeerError) bool // of the coordinator, see grpcnet.Config
	look  time.Duration                     // for the coordinator, see grpcnet.Config.FindTimeout
	back  bool                              // all have come before
}

// Join runs one rank of a run whose observer is another process, the launcher.
func Join(ctx context.Context, run config.Run, o JoinOptions) error {
	r, err := run.Resolve()
	if err != nil {
		return err
	}
	c := r.Config()
	if o.Places.Warn == nil && o.Logf != nil {
		o.Places.Warn = func(s string) { o.Logf("%s: %s", c.Data, s) }
	}
	job, err := r.Build(o.Places, nil)
	if err != nil {
		return err
	}
	job.Stopping, job.Due = o.stopping(), newInTime(CheckpointTime).due
	job.KeepLast = keepsLast(job)
	var ended func(error)
	if o.Stopping != nil && breaksOff(c, job) {
		u := newUpdates(job, 1, o.wantsRequeue)
		job.Between, ended = u.between, u.end
	}
	if err := o.check(job); err != nil {
		return err
	}
	if o.Identity.Rank < 0 || o.Identity.Rank >= job.World() {
		return &config.Error{Err: fmt.Errorf("rank is %d, want 0 … %d", o.Identity.Rank, job.World()-1)}
	}
	if _, err := job.Program(o.Identity.Rank); err != nil {
		return err
	}
	defer limitThreads(o.Identity.threads(c.Threads, o.getenv))()
	defer o.passOnStop(ctx)()
	err = o.rejoin(ctx, job, func() error {
		p, err := job.Program(o.Identity.Rank)
		if err != nil {
			return err
		}
		if !o.Launched {
			p = told(job.Observer(), p, o.Requeue, ended)
		}
		net, err := o.open(r, job, o.Identity.Rank)
		if err != nil {
			return err
		}
		defer net.close()
		return o.whenAllHaveCome(ctx, r.Emulated(net), []comm.Program{p})
	})
	if off, again := brokenOff(err); off && !o.Launched {
		if err = errRunStopped; again && o.Requeue != nil {
			o.Requeue.Store(true)
		}
	}
	if errors.Is(err, errRunStopped) {
		o.untilRecorded(ctx)
	}
	return err
}

// recordTime is how long the rank of a stopped run waits for the run's record.
const recordTime = 5 * time.Second

// untilRecorded waits until the folder says what became of a stopped run, where this rank
// sees it. A launcher such as mpirun ends all processes at the first that fails, as a
// stopped rank does: that of rank 0 is to have written its record by then.
func (o *JoinOptions) untilRecorded(ctx context.Context) {
	if o.Folder == nil || o.Folder() == "" {
		return
	}
	status := filepath.Join(o.Folder(), "status.json")
	for give := time.After(recordTime); ; {
		var s Status
		if readJSON(status, &s) != nil || s.State != "running" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-give:
			return
		case <-time.After(stopLook):
		}
	}
}

// passOnStop asks the run to stop once this rank is asked to: only those that lead could
// stop it by themselves.
func (o *JoinOptions) passOnStop(ctx context.Context) (end func()) {
	if o.Folder == nil || o.Stopping == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTicker(stopLook)
		defer t.Stop()
		for !o.Stopping() {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
		o.request()
	})
	return func() { cancel(); done.Wait() }
}

// request asks the run to stop, through its folder.
func (o *JoinOptions) request() {
	if folder := o.Folder(); folder != "" {
		word := ""
		if requeued(o.Requeue) {
			word = requeueWord
		}
		_ = requestStop(folder, word) // a run that has ended need not stop
	}
}

// stopping is Stopping for the rank's job. A rank that may lead stops by itself: before it
// does, the run's folder says that it is to be started again.
func (o *JoinOptions) stopping() func() bool {
	if o.Folder == nil || o.Stopping == nil {
		return o.Stopping
	}
	var once sync.Once
	return func() bool {
		if !o.Stopping() {
			return false
		}
		if requeued(o.Requeue) {
			once.Do(o.request)
		}
		return true
	}
}

// wantsRequeue says whether the stop of the run asks for another start, as some rank has
// heard it.
func (o *JoinOptions) wantsRequeue() bool {
	if !requeued(o.Requeue) && o.Requeue != nil && o.Folder != nil {
		if word, _ := regular.ReadFile(filepath.Join(o.Folder(), stopFile), 1024); string(word) == requeueWord {
			o.Requeue.Store(true)
		}
	}
	return requeued(o.Requeue)
}

// errNotBegun is a stop that was asked for before all ranks had come.
const errNotBegun = Stopped("not all ranks had come, so nothing was begun")

// errNotBack is one that was asked for while ranks met again.
const errNotBack = Stopped("not all ranks had come back; --resume goes on from the last checkpoint, if there is one")

// whenAllHaveCome runs the programs of this process on a net that waits for the
// others. A stop that is asked for meanwhile ends the wait.
func (o *JoinOptions) whenAllHaveCome(ctx context.Context, net comm.Net, programs []comm.Program) error {
	if o.Launched || o.Stopping == nil {
		return net.Run(ctx, programs)
	}
	stopped := errNotBegun
	if o.back {
		stopped = errNotBack
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := make(chan struct{})
	var once sync.Once
	wrapped := make([]comm.Program, len(programs))
	for i, p := range programs {
		wrapped[i] = func(ctx context.Context, h comm.Host) error {
			once.Do(func() { close(begun) })
			return p(ctx, h)
		}
	}
	go func() {
		for t := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-begun: // from here on it stops at a step
			case <-ctx.Done():
			case <-t.C:
				if !o.Stopping() {
					continue
				}
				select {
				case <-begun:
				default:
					cancel(stopped)
				}
			}
			t.Stop()
			return
		}
	}()
	err := net.Run(ctx, wrapped)
	if err != nil && context.Cause(ctx) == error(stopped) {
		return stopped
	}
	return err
}

// opened is a process's part of a net of processes.
type opened struct {
	comm.Net
	Carried func() comm.Carried // see the nets
	close   func()
}

// open makes the part of this process, which hosts these ranks.
func (o *JoinOptions) open(r *config.Resolved, j *train.Job, ranks ...int) (opened, error) {
	if r.Config().OnNet().Ranks == config.RanksLed {
		net, err := mpiNet(r.Config(), j, o.Timeout)
		return opened{net, net.Carried, func() {}}, err
	}
	p := part(r, j, o.Token, ranks...)
	p.Listen, p.Advertise, p.TLS, p.Insecure, p.JoinTimeout, p.Logf = o.Listen, o.Advertise, o.TLS, o.Insecure, o.Timeout, o.Logf
	p.Again, p.FindTimeout = o.again, o.look
	if o.Identity.Lead {
		var err error
		if p.Listen, err = leadAt(o.Listen, o.Identity.Coordinator); err != nil {
			return opened{}, err
		}
	} else {
		p.Coordinator = o.Identity.Coordinator
	}
	net, err := grpcnet.New(p)
	if err != nil {
		return opened{}, err
	}
	return opened{net, net.Carried, func() { net.Close() }}, nil
}

func (o *JoinOptions) getenv(name string) string {
	if o.Getenv == nil {
		return ""
	}
	return o.Getenv(name)
}

// check compares what the launcher says with what the job needs.
func (o *JoinOptions) check(job *train.Job) error {
	if w := o.Identity.World; w > 0 && w != job.World() {
		return &config.Error{Err: fmt.Errorf("%s start %d processes, but %d workers and %d servers are %d ranks", o.Identity.Source, w, job.Workers, job.World()-job.Workers, job.World())}
	}
	return nil
}
