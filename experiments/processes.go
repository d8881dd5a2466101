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
	"syscall"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// exitRequeue is with what a process ends that lost another, or was lost to it: another try
// may go well.
const exitRequeue = 75

// processes are the ranks of one launch.
type processes struct {
	threads int
	command func(rank int) Command
	name    func(rank int) string
	logf    func(format string, args ...any)
	most    int // starts of ranks that died

	mu       sync.Mutex
	all      []*process // by rank: the present one
	met      []*process // when all had joined last; nil: they never have
	joined   chan struct{}
	restarts int
	killed   map[*process]bool
	awaited  map[*process]bool // killed by key faults, which starts it again
	stopping map[*process]bool

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

func startAll(n int, p *processes) (*processes, error) {
	p.killed, p.awaited, p.stopping, p.gone, p.over = map[*process]bool{}, map[*process]bool{}, map[*process]bool{}, make(chan *process, n), make(chan struct{})
	p.joined = make(chan struct{})
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
func (p *processes) restart(ended *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[ended.rank] == ended { // else somebody has
		_ = p.put(ended.rank)
	}
}

// now are the present processes.
func (p *processes) now() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// meet says that all ranks are to join, from now on.
func (p *processes) meet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = make(chan struct{})
}

// haveMet says that they have.
func (p *processes) haveMet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met = slices.Clone(p.all)
	close(p.joined)
}

// meeting is closed when all have joined.
func (p *processes) meeting() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.joined
}

// mind ends a run whose ranks die before all have joined: they would be waited for in
// vain. Once the run has begun it starts ranks again that die.
func (p *processes) mind(ctx context.Context, end context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case pr := <-p.gone:
			if ctx.Err() != nil || p.revive(pr) || p.awaits(pr) {
				continue
			}
			wait := 200 * time.Millisecond // its refusal may be on its way
			if pr.err == nil {
				wait = 5 * time.Second // its part may be done, and the observer about to begin
			}
			select {
			case <-p.meeting():
			case <-ctx.Done():
				return
			case <-time.After(wait):
				end(p.missing(pr.rank))
				return
			}
		}
	}
}

// missing is why a run cannot begin, or begin again, without a rank.
func (p *processes) missing(rank int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met == nil {
		return fmt.Errorf("rank %d ended before the run began", rank)
	}
	return &comm.PeerError{Rank: rank, Cause: "it ended while the others waited for it", Lost: true}
}

// revive starts a rank again whose process has died in a run that had begun: one that was
// killed, or says that another try may go well. The others would fail as they did. It says
// whether the rank has another process.
func (p *processes) revive(pr *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	exit := new(exec.ExitError)
	switch {
	case p.all[pr.rank] != pr:
		return true
	case p.met == nil, p.restarts >= p.most, p.killed[pr], !errors.As(pr.err, &exit), exit.ExitCode() != -1 && exit.ExitCode() != exitRequeue:
		return false
	}
	p.restarts++
	p.logf("%s is started again (%v; %d of max_restarts=%d)", p.name(pr.rank), pr.err, p.restarts, p.most)
	return p.put(pr.rank) == nil
}

// put starts a process for a rank. Callers hold mu.
func (p *processes) put(rank int) error {
	pr, err := p.start(rank)
	if err != nil {
		p.logf("%s is not started again: %v", p.name(rank), err)
		return err
	}
	p.all[rank] = pr
	return nil
}

// replace ends what is left of a rank's process that the run has lost, and starts another
// one. It says whether there is one.
func (p *processes) replace(rank int) bool {
	p.mu.Lock()
	pr := p.met[rank]
	p.mu.Unlock()
	_ = pr.cmd.Process.Kill() // it may sleep, or be cut off
	<-pr.done
	return p.revive(pr) || p.awaits(pr)
}

// awaits says whether key faults starts the rank of a process again that it has killed.
func (p *processes) awaits(pr *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaited[pr]
}

// complete starts the ranks again that the run had gone on without, and says whether all
// are there.
func (p *processes) complete() bool {
	for _, pr := range p.now() {
		select {
		case <-pr.done:
		default:
			continue
		}
		if p.revive(pr) || p.awaits(pr) {
			continue
		}
		p.mu.Lock()
		ok := (pr.err == nil || p.killed[pr]) && p.put(pr.rank) == nil
		p.mu.Unlock()
		if !ok {
			return false
		}
	}
	return true
}

// struck says whether a process died by key faults, which says by itself who comes back.
func (p *processes) struck(pr *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed[pr]
}

// stop asks the processes to stop, each once: the second time would end it.
func (p *processes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pr := range p.all {
		if !p.stopping[pr] {
			p.stopping[pr] = true
			_ = pr.cmd.Process.Signal(syscall.SIGTERM)
		}
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
