package virtual

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/sgd/external"
)

// processes are the ranks, or the one process that starts them.
type processes struct {
	cancel context.CancelFunc
	all    []*exec.Cmd
	ended  []chan error
	over   atomic.Bool
}

// start starts the command, as often as ranks are asked for.
func start(ctx context.Context, o Options, socket string) (*processes, error) {
	python, err := external.Python()
	if err != nil {
		return nil, err
	}
	if paths := variable(o.Env, "PYTHONPATH"); paths != "" {
		python += string(os.PathListSeparator) + paths
	}
	env := append(slices.Clone(o.Env), "GRADLAB_VIRTUAL="+socket, "PYTHONPATH="+python)
	if o.Stated {
		env = append(env, "GRADLAB_STATED=1")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	out, errs := oneAtATime(o.Stdout, o.Stderr)
	p := &processes{}
	ctx, p.cancel = context.WithCancel(ctx)
	for r := range max(o.Ranks, 1) {
		c := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...)
		c.Env, c.Stdout, c.Stderr = env, out, errs
		if o.Ranks > 0 {
			n, me := strconv.Itoa(o.Ranks), strconv.Itoa(r)
			c.Env = append(c.Env[:len(c.Env):len(c.Env)], "RANK="+me, "LOCAL_RANK="+me, "WORLD_SIZE="+n, "LOCAL_WORLD_SIZE="+n, "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
			if variable(o.Env, "OMP_NUM_THREADS") == "" { // as torchrun does
				c.Env = append(c.Env, "OMP_NUM_THREADS=1")
			}
			if variable(o.Env, "USE_LIBUV") == "" { // some builds of PyTorch are without it
				c.Env = append(c.Env, "USE_LIBUV=0")
			}
		}
		c.WaitDelay = 5 * time.Second
		inGroup(c)
		// The thread that starts a child must live on for its death to be the child's.
		started, ended := make(chan error), make(chan error, 1)
		go func() {
			defer lockThread()()
			err := c.Start()
			started <- err
			if err == nil {
				ended <- c.Wait()
			}
		}()
		if err := <-started; err != nil {
			p.kill()
			_ = p.wait()
			return nil, fmt.Errorf("%s is not started: %w", o.Command[0], err)
		}
		p.all, p.ended = append(p.all, c), append(p.ended, ended)
	}
	return p, nil
}

// variable is the value of a variable, the last one if there are several.
func variable(env []string, name string) (value string) {
	for _, v := range env {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value = text
		}
	}
	return value
}

// oneAtATime lets several processes write to the same writers. Files need no help.
func oneAtATime(out, errs io.Writer) (io.Writer, io.Writer) {
	var mu sync.Mutex
	lock := func(w io.Writer) io.Writer {
		if _, file := w.(*os.File); file || w == nil {
			return w
		}
		return &locked{mu: &mu, w: w}
	}
	return lock(out), lock(errs)
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// wait waits for all, and returns how the first that failed ended; others are ended
// then.
func (p *processes) wait() error {
	defer p.cancel()
	var first error
	var once sync.Once
	var all sync.WaitGroup
	for r, c := range p.all {
		all.Go(func() {
			err := <-p.ended[r]
			if err == nil {
				return
			}
			once.Do(func() {
				who := strings.Join(c.Args, " ")
				if len(p.all) > 1 {
					who = fmt.Sprintf("rank %d: %s", r, who)
				}
				first = fmt.Errorf("%s: %w", who, err)
			})
			p.cancel()
		})
	}
	all.Wait()
	return first
}

func (p *processes) kill() {
	p.over.Store(true)
	p.cancel()
}

// killed says whether the processes were ended from here.
func (p *processes) killed() bool { return p.over.Load() }

// freePort is one that nobody listens at now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
