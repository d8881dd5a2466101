package experiments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exitRequeue is with what a process ends that lost another, or was lost to it: another try
// may go well.
const exitRequeue = 75

// processes are the ranks of one launch.
type processes struct {
	threads int
	command func(rank int) Command
	most    int // starts of workers that died

	mu     sync.Mutex
	all    []*process // by rank: the present one
	killed map[*process]bool

	gone chan *process
	over chan struct{} // closed when nobody asks for gone any more
	once sync.Once
}

type process struct {
	rank   int
	cmd    *exec.Cmd
	stderr tail
	done   chan struct{}
	err    error
}

func startAll(n, most, threads int, command func(rank int) Command) (*processes, error) {
	p := &processes{threads: threads, command: command, most: most, killed: map[*process]bool{}, gone: make(chan *process, n), over: make(chan struct{})}
	for r := range n {
		pr, err := p.start(r)
		if err != nil {
			p.end()
			return nil, err
		}
		p.all = append(p.all, pr)
	}
	return p, nil
}

// start starts the process of a rank.
func (p *processes) start(rank int) (*process, error) {
	c := p.command(rank)
	if c.Err != nil {
		return nil, c.Err
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(append(os.Environ(), c.Env...), "GOMAXPROCS="+strconv.Itoa(p.threads))
	pr := &process{rank: rank, cmd: cmd, done: make(chan struct{})}
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
		select {
		case p.gone <- pr:
		case <-p.over:
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("rank %d: %w", rank, err)
	}
	return pr, nil
}

// restart starts the process of a rank that has ended again.
func (p *processes) restart(ended *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[ended.rank] != ended {
		return nil // somebody has
	}
	pr, err := p.start(ended.rank)
	if err == nil {
		p.all[ended.rank] = pr
	}
	return err
}

// now are the present processes.
func (p *processes) now() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// watch ends a run whose ranks die before all have joined.
func (p *processes) watch(ctx context.Context, joined <-chan struct{}, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-joined:
			return
		case <-ctx.Done():
			return
		case pr := <-p.gone:
			wait := 200 * time.Millisecond // its refusal may be on its way
			if pr.err == nil {
				wait = 5 * time.Second // its part may be done, and the observer about to begin
			}
			select {
			case <-joined:
				return
			case <-ctx.Done():
				return
			case <-time.After(wait):
				cancel(fmt.Errorf("rank %d ended before the run began", pr.rank))
				return
			}
		}
	}
}

// again starts workers again that die while the run goes on: those that were killed, or
// that say that another try may go well. The others would fail as they did.
func (p *processes) again(ctx context.Context, workers int, logf func(string, ...any)) {
	for restarts := 0; restarts < p.most; {
		select {
		case <-ctx.Done():
			return
		case pr := <-p.gone:
			exit := new(exec.ExitError)
			if pr.rank >= workers || !errors.As(pr.err, &exit) || exit.ExitCode() != -1 && exit.ExitCode() != exitRequeue || p.struck(pr) || ctx.Err() != nil {
				continue
			}
			restarts++
			logf("worker %d is started again (%v; %d of max_restarts=%d)", pr.rank, pr.err, restarts, p.most)
			if err := p.restart(pr); err != nil {
				logf("worker %d is not started again: %v", pr.rank, err)
			}
		}
	}
}

// struck says whether a process died by key faults, which says by itself who comes back.
func (p *processes) struck(pr *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed[pr]
}

func (p *processes) signal(s os.Signal) {
	for _, pr := range p.now() {
		_ = pr.cmd.Process.Signal(s)
	}
}

// kill gives the processes a moment to end by themselves, then ends them: a
// stopped one too.
func (p *processes) kill(grace time.Duration) {
	deadline := time.After(grace)
	for _, pr := range p.now() {
		select {
		case <-pr.done:
		case <-deadline:
			for _, q := range p.now() {
				_ = q.cmd.Process.Kill()
			}
			<-pr.done
		}
	}
}

// end leaves no process behind.
func (p *processes) end() {
	p.once.Do(func() { close(p.over) })
	p.kill(5 * time.Second)
}

// failure quotes what ranks that are over said last.
func (p *processes) failure() string {
	var b strings.Builder
	for _, pr := range p.now() {
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
