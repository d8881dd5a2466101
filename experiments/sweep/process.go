package sweep

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Order is what a job's process reads as the first line of its input. The
// line "stop" asks it to write a checkpoint and end; the end of the input, which
// comes when the sweep's process dies, ends it at once.
type Order struct {
	Recipe string   `json:"recipe"`
	Run    string   `json:"run"`
	Config string   `json:"config"` // the resolved configuration, as YAML
	Out    string   `json:"out"`
	From   string   `json:"from"` // the folder of the run it is priced from; "": none
	Args   []string `json:"args"` // the sweep's command line, for the record

	Shared bool `json:"shared,omitempty"` // run folders can be read by all users

	About experiments.About `json:"about,omitzero"` // what is said of the runs
}

// report is a line a job's process writes.
type report struct {
	Done   int                 `json:"done,omitempty"`
	Total  int                 `json:"total,omitempty"`
	Result *experiments.Result `json:"result,omitempty"`
	Evals  []record.Eval       `json:"evals,omitempty"`
	Error  string              `json:"error,omitempty"`
	Stop   bool                `json:"stopped,omitempty"`
	Config bool                `json:"config,omitempty"` // the error is a *config.Error
}

// Processes runs each job in a process of its own.
type Processes struct {
	Command func(ctx context.Context) *exec.Cmd // starts a process that calls Serve
	Order   Order                               // what all jobs share
}

// grace is how long a process may take to end after it has been asked to.
const grace = 30 * time.Second

// Run implements Runner.
func (p Processes) Run(ctx context.Context, j Job, cores int, stop <-chan struct{}, watch func(done, total int)) (*experiments.Result, error) {
	o := p.Order
	o.Run, o.Config, o.From = j.Name, string(j.Config.YAML()), j.From
	cmd := p.Command(ctx)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(cores))
	cmd.WaitDelay = grace
	said := &tail{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		if json.NewEncoder(in).Encode(o) != nil {
			return // the process is gone, and says why below
		}
		select {
		case <-stop:
			_, _ = io.WriteString(in, "stop\n")
		case <-ended:
		}
	}()
	var last report
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var r report
		if json.Unmarshal(sc.Bytes(), &r) != nil {
			continue
		}
		if last = r; r.Total > 0 {
			watch(r.Done, r.Total)
		}
	}
	close(ended)
	err = cmd.Wait()
	if last.Result != nil {
		last.Result.Evals = last.Evals
	}
	switch {
	case last.Stop:
		return last.Result, experiments.ErrStopped
	case last.Config:
		return nil, &config.Error{Err: errors.New(last.Error)}
	case last.Error != "":
		return nil, errors.New(last.Error)
	case last.Result != nil:
		return last.Result, nil
	case ctx.Err() != nil:
		return nil, experiments.ErrStopped
	}
	return nil, fmt.Errorf("its process ended without a result (%v)\n%s", err, said)
}

// Serve is the other side: it reads an order from in, makes the run and writes
// reports to out. The error of a run goes to out as well.
func Serve(ctx context.Context, in io.Reader, out io.Writer, stopping func() bool, opt experiments.Options) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	var o Order
	if err := json.Unmarshal(first, &o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	c, unknown, err := config.ParseConfig([]byte(o.Config))
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("keys %v are unknown to this process", unknown)
	}
	if err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	var stop atomic.Bool
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			switch line, err := lines.ReadString('\n'); {
			case err != nil:
				cancel()
				return
			case strings.TrimSpace(line) == "stop":
				stop.Store(true)
			}
		}
	}()

	var mu sync.Mutex
	enc := json.NewEncoder(out)
	write := func(r report) error {
		mu.Lock()
		defer mu.Unlock()
		return enc.Encode(r)
	}
	var told time.Time
	opt.Recipe, opt.Out, opt.Args, opt.About, opt.From, opt.Resume, opt.Implied, opt.Shared = o.Recipe, o.Out, o.Args, o.About, o.From, true, true, o.Shared
	opt.Stopping = func() bool { return stop.Load() || stopping() }
	opt.Watch = func(done, total int) {
		if now := time.Now(); now.Sub(told) > 200*time.Millisecond {
			told = now
			_ = write(report{Done: done, Total: total})
		}
	}
	r, err := experiments.Execute(ctx, config.Run{Name: o.Run, Config: c}, opt)
	end := report{Result: r}
	if r != nil {
		end.Evals = r.Evals
	}
	var bad *config.Error
	switch {
	case errors.Is(err, experiments.ErrStopped):
		end.Stop = true
	case err != nil:
		end.Error, end.Config = err.Error(), errors.As(err, &bad)
	}
	return write(end)
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 8 << 10
	t.b = append(t.b, p...)
	if over := len(t.b) - most; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.b)) }
