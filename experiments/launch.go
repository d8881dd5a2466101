package experiments

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
)

// Command is a program with its arguments and what is added to its environment.
type Command struct {
	Path string
	Args []string
	Env  []string
	Err  error // why there is no such program; nil: there is
}

// Identity lists what all processes of a run must agree on. A process that was
// started with anything else is refused, with the fields that differ.
func Identity(c config.Config, j *train.Job) []comm.Field {
	f := []comm.Field{
		{Name: "protocol", Value: "gradlab/1"},
		{Name: "model layout", Value: fmt.Sprintf("%016x", j.Model.Layout().Hash())},
		{Name: "data set", Value: fmt.Sprintf("%s %016x", j.Data.Name, j.Data.Hash)},
	}
	if sum := startHash(c, j); sum != "" {
		f = append(f, comm.Field{Name: "first weights", Value: sum})
	}
	for _, k := range config.Keys() {
		if k.Name == "threads" { // a process's own business
			continue
		}
		f = append(f, comm.Field{Name: k.Name, Value: c.Get(k.Name)})
	}
	return f
}

// part is the net's part of a process that hosts these ranks of a run of c. A frame may
// be of any size: that of a resumed run's state is the state of all ranks.
func part(r *config.Resolved, j *train.Job, token string, ranks ...int) grpcnet.Config {
	c := r.Config()
	return grpcnet.Config{
		Ranks: ranks, World: j.World() + 1, Identity: Identity(c, j), Token: strings.TrimSpace(token), Run: j.Run,
		Links: grpcnet.Links(c.Links), Deadline: config.LongestWait, MaxFrame: math.MaxInt, Late: r.IsElastic(), Fixed: j.AllFixed(),
	}
}

// LaunchTimeout is how long ranks may take to open their data. One that fails
// meanwhile is noticed at once.
const LaunchTimeout = 30 * time.Minute

// launch runs the observer here and every other rank as a process of this
// machine, and leaves no process behind.
func (e *execution) launch(ctx context.Context) error {
	r, c, job, f, opt := e.of, e.config, e.job, e.f, e.opt
	if opt.Join == nil {
		return fmt.Errorf("net=%s needs a command to start ranks with: Options.Join, such as Itself", c.Net)
	}
	plan, err := strikable(r, job)
	if err != nil {
		return err
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return err
	}
	token := hex.EncodeToString(secret[:])
	tokenFile := f.file("token")
	if err := writeToken(tokenFile, token); err != nil {
		return err
	}
	defer os.Remove(tokenFile)

	var procs *processes
	own := part(r, job, token, job.Observer())
	own.JoinTimeout, own.Logf, own.Again = LaunchTimeout, opt.Display.Logf, e.goesBack(func(rank int) bool { return procs.replace(rank) })
	net, err := grpcnet.New(own)
	if err != nil {
		return err
	}
	at := net.Addr()
	own.Listen = at // where the ranks come back to
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	procs, err = startAll(job.World(), &processes{
		most: r.MaxRestarts(), threads: threadsEach(c.Threads, job.Workers), name: job.RankName, logf: opt.Display.Logf,
		command: func(rank int) Command { return opt.Join(rank, at, f.file("config.yaml"), tokenFile) },
	})
	if err != nil {
		net.Close()
		return err
	}
	defer procs.end()
	minding, over := context.WithCancel(ctx)
	defer over()
	go procs.mind(minding, cancel)

	var struck sync.Once
	err = e.attempts(func() error {
		if net == nil {
			if net, err = grpcnet.New(own); err != nil {
				return err
			}
			if procs.meet(); !procs.complete() {
				net.Close()
				return e.behind
			}
		}
		attempt, end := context.WithCancel(ctx)
		defer end()
		go passStopOn(attempt, job, f, procs)
		if len(plan) > 0 {
			e.obs.Sink = &beginning{Sink: e.obs.Sink, tell: func() { struck.Do(func() { go procs.strike(minding, plan, job.AllFixed()) }) }}
		}
		err := r.Emulated(net).Run(ctx, []comm.Program{func(ctx context.Context, h comm.Host) error {
			procs.haveMet()
			return e.obs.Program(ctx, h)
		}})
		f.carried = net.Carried()
		net = nil
		return err
	})
	over()
	if err != nil {
		procs.kill(2 * time.Second)
		if early := procs.failure(); early != "" {
			return fmt.Errorf("%w\n%s", err, early)
		}
		return err
	}
	return nil
}

// passStopOn tells a stop to all ranks; those that lead decide at which step.
func passStopOn(ctx context.Context, job *train.Job, f *folder, procs *processes) {
	select { // who has joined listens for signals
	case <-procs.meeting():
	case <-ctx.Done():
		return
	}
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if job.IsStopping() {
				f.told.Store(true)
				procs.stop()
				return
			}
		}
	}
}

// writeToken writes a run's secret into a file of its own, for its owner alone. What an
// earlier launch left there, which was killed, or somebody else put there, goes: O_EXCL
// opens no file that exists and follows no link.
func writeToken(path, token string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token)
	return errors.Join(err, f.Close())
}

// lead hosts rank 0 and the observer; the other ranks come by themselves.
func (e *execution) lead(ctx context.Context) error {
	r, o := e.of, *e.opt.Lead
	switch plan, err := r.Plan(e.job.World() - e.job.Workers); {
	case err != nil:
		return err
	case len(plan) > 0:
		return &config.Error{Err: errors.New("key \"faults\": this process has not started the others, and can do nothing to them; use gradlab run, which starts them")}
	}
	o.again = e.goesBack(func(int) bool { return true })
	defer limitThreads(o.Identity.threads(e.config.Threads, o.getenv))()
	return e.attempts(func() error {
		p, err := e.job.Program(0)
		if err != nil {
			return err
		}
		o.back = e.behind != nil
		net, err := o.open(r, e.job, 0, e.job.Observer())
		if err != nil {
			return err
		}
		defer net.close()
		err = o.whenAllHaveCome(ctx, r.Emulated(net), []comm.Program{p, telling(e.obs, e.obs.Program, o.wantsRequeue, e.ended)})
		e.f.carried = net.Carried()
		return err
	})
}

// startHash tells the weights that ranks begin with from others, where a file has
// them; "" elsewhere.
func startHash(c config.Config, j *train.Job) string {
	if c.Init == "none" {
		return ""
	}
	params := make([]float32, j.Model.Layout().Size())
	j.Model.Init(params, c.Seed)
	sum := sha256.Sum256(f32.AppendBytes(nil, params))
	return fmt.Sprintf("%x", sum[:8])
}
