package experiments

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/config"
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
func part(c config.Config, j *train.Job, token string, ranks ...int) grpcnet.Config {
	return grpcnet.Config{
		Ranks: ranks, World: j.World() + 1, Identity: Identity(c, j), Token: strings.TrimSpace(token), Run: j.Run,
		Links: grpcnet.Links(c.Links), Deadline: config.LongestWait, MaxFrame: math.MaxInt, Late: c.Elastic,
	}
}

// LaunchTimeout is how long ranks may take to open their data. One that fails
// meanwhile is noticed at once.
const LaunchTimeout = 30 * time.Minute

// launch runs the observer here and every other rank as a process of this
// machine, and leaves no process behind.
func launch(ctx context.Context, c config.Config, job *train.Job, obs *train.Observer, f *folder, opt Options) error {
	if opt.Join == nil {
		return errors.New("net=grpc needs a command to start ranks with: Options.Join, such as Itself")
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

	own := part(c, job, token, job.Observer())
	own.JoinTimeout, own.Logf = LaunchTimeout, opt.Display.Logf
	net, err := grpcnet.New(own)
	if err != nil {
		return err
	}
	defer net.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	procs, err := startAll(job.World(), c.MaxRestarts, threadsEach(c.Threads, job.Workers), func(rank int) Command {
		return opt.Join(rank, net.Addr(), f.file("config.yaml"), tokenFile)
	})
	if err != nil {
		return err
	}
	defer procs.end()

	// A rank that dies before the run has begun would be waited for in vain.
	joined := make(chan struct{})
	restarting, over := context.WithCancel(ctx)
	defer over()
	go func() {
		procs.watch(ctx, joined, cancel)
		procs.again(restarting, job.Workers, opt.Display.Logf)
	}()
	go func() { // a stop is told to all; the lead ranks decide at which step
		select { // who has joined listens for signals
		case <-joined:
		case <-ctx.Done():
			return
		}
		for t := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
				if job.IsStopping() {
					f.told.Store(true)
					procs.signal(syscall.SIGTERM)
					t.Stop()
					return
				}
			}
		}
	}()
	plan, err := strikable(c, job)
	if err != nil {
		return err
	}
	if len(plan) > 0 {
		obs.Sink = &beginning{Sink: obs.Sink, tell: func() { go procs.strike(restarting, plan, opt.Display.Logf) }}
	}
	program := func(ctx context.Context, h comm.Host) error {
		close(joined)
		return obs.Program(ctx, h)
	}
	err = c.Emulated(net).Run(ctx, []comm.Program{program})
	over()
	f.carried = net.Carried()
	if err != nil {
		procs.kill(2 * time.Second)
		if early := procs.failure(); early != "" {
			return fmt.Errorf("%w\n%s", err, early)
		}
		return err
	}
	return nil
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
func lead(ctx context.Context, c config.Config, job *train.Job, obs *train.Observer, f *folder, o JoinOptions) error {
	if c.Faults != "none" {
		return &config.Error{Err: errors.New("key \"faults\": this process has not started the others, and can do nothing to them; use gradlab run, which starts them")}
	}
	p, err := job.Program(0)
	if err != nil {
		return err
	}
	defer limitThreads(o.Identity.threads(c.Threads, o.getenv))()
	net, err := o.open(c, job, 0, job.Observer())
	if err != nil {
		return err
	}
	defer net.close()
	err = o.whenAllHaveCome(ctx, c.Emulated(net), []comm.Program{p, telling(obs, obs.Program, o.wantsRequeue)})
	f.carried = net.Carried()
	return err
}
