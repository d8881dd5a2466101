package experiments

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
		Links: grpcnet.Links(c.Links), Deadline: config.LongestWait, MaxFrame: math.MaxInt,
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
	procs, err := startAll(job.World(), threadsEach(c.Threads, job.Workers), func(rank int) Command {
		return opt.Join(rank, net.Addr(), f.file("config.yaml"), tokenFile)
	})
	if err != nil {
		return err
	}
	defer procs.end()

	// A rank that dies before the run has begun would be waited for in vain.
	joined := make(chan struct{})
	go procs.watch(ctx, joined, cancel)
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
		obs.Sink = &beginning{Sink: obs.Sink, tell: func() { go procs.strike(ctx, plan) }}
	}
	program := func(ctx context.Context, h comm.Host) error {
		close(joined)
		return obs.Program(ctx, h)
	}
	err = c.Emulated(net).Run(ctx, []comm.Program{program})
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

// processes are the ranks of one launch.
type processes struct {
	all  []*process
	gone chan int
}

type process struct {
	rank   int
	cmd    *exec.Cmd
	stderr tail
	done   chan struct{}
	err    error
}

func startAll(n, threads int, command func(rank int) Command) (*processes, error) {
	p := &processes{gone: make(chan int, n)}
	for r := 0; r < n; r++ {
		c := command(r)
		if c.Err != nil {
			p.end()
			return nil, c.Err
		}
		cmd := exec.Command(c.Path, c.Args...)
		cmd.Env = append(append(os.Environ(), c.Env...), "GOMAXPROCS="+strconv.Itoa(threads))
		pr := &process{rank: r, cmd: cmd, done: make(chan struct{})}
		cmd.Stderr = &pr.stderr
		cmd.Stdout = io.Discard
		dieWithParent(cmd)
		// The thread that starts a child must live on for Pdeathsig.
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := cmd.Start()
			started <- err
			if err != nil {
				return
			}
			pr.err = cmd.Wait()
			close(pr.done)
			p.gone <- pr.rank
		}()
		if err := <-started; err != nil {
			p.end()
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		p.all = append(p.all, pr)
	}
	return p, nil
}

// watch ends a run whose ranks die before all have joined.
func (p *processes) watch(ctx context.Context, joined <-chan struct{}, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-joined:
			return
		case <-ctx.Done():
			return
		case r := <-p.gone:
			wait := 200 * time.Millisecond // its refusal may be on its way
			if p.all[r].err == nil {
				wait = 5 * time.Second // its part may be done, and the observer about to begin
			}
			select {
			case <-joined:
				return
			case <-ctx.Done():
				return
			case <-time.After(wait):
				cancel(fmt.Errorf("rank %d ended before the run began", r))
				return
			}
		}
	}
}

func (p *processes) signal(s os.Signal) {
	for _, pr := range p.all {
		_ = pr.cmd.Process.Signal(s)
	}
}

// kill gives the processes a moment to end by themselves, then ends them: a
// stopped one too.
func (p *processes) kill(grace time.Duration) {
	deadline := time.After(grace)
	for _, pr := range p.all {
		select {
		case <-pr.done:
		case <-deadline:
			for _, q := range p.all {
				_ = q.cmd.Process.Kill()
			}
			<-pr.done
		}
	}
}

// end leaves no process behind.
func (p *processes) end() { p.kill(5 * time.Second) }

// failure quotes what ranks that are over said last.
func (p *processes) failure() string {
	var b strings.Builder
	for _, pr := range p.all {
		select {
		case <-pr.done:
		default:
			continue
		}
		said, how := strings.TrimSpace(pr.stderr.String()), "exit status 0"
		if pr.err != nil {
			how = pr.err.Error()
		} else if said == "" {
			continue
		}
		fmt.Fprintf(&b, "rank %d (%s): %s\n", pr.rank, how, said)
	}
	return strings.TrimRight(b.String(), "\n")
}

// tail keeps the end of what a process says. What of it is quoted begins with the
// last error it tells or, as stacks are long, with the reason of its crash.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// quoted is how many lines of a failed process are told.
const quoted = 6

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if over := t.b.Len() - 64<<10; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(t.b.String()), "\n")
	from := max(0, len(lines)-quoted)
	for i, l := range lines {
		if strings.HasPrefix(l, "gradlab: ") || strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			from = i
		}
	}
	return strings.Join(lines[from:min(from+quoted, len(lines))], "\n  ")
}
