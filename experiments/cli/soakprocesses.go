package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/soak"
	"github.com/gradlab/gradlab/sgd/train"
)

// soakLeg is what a run of processes came to: a line of the record.
type soakLeg struct {
	Mode    string   `json:"mode"`
	Seed    uint64   `json:"seed"`
	Ranks   int      `json:"processes"`
	Steps   int      `json:"steps"`
	Seconds float64  `json:"seconds"`
	Deaths  int      `json:"deaths"`
	Back    int      `json:"back"`
	Epochs  int      `json:"epochs"`
	First   float64  `json:"first_third_bytes"` // all processes together, in the mean
	Last    float64  `json:"last_third_bytes"`
	Broken  []string `json:"broken,omitempty"`
	Command string   `json:"command"`
}

// checkProcesses completes the flags of processes, or says what is wrong with them.
func (o *soakOptions) checkProcesses() error {
	if o.processes < 2 || !(o.minutes > 0 && o.minutes <= 1e5) || !(o.every > 0 && o.every <= 1e5) {
		return usageError{fmt.Errorf("--processes %d, --minutes %v, --every %v: want 2 processes or more, and times above 0", o.processes, o.minutes, o.every)}
	}
	if o.modes == nil {
		o.modes = []string{"reduce", "server"}
	}
	for _, mode := range o.modes {
		if _, err := soak.NewLeg(o.from, mode, o.processes, 1); err != nil {
			return usageError{fmt.Errorf("--modes: %w", err)}
		}
	}
	if _, err := resident(os.Getpid()); err != nil {
		return usageError{fmt.Errorf("--processes: how much memory processes hold is not told here: %w", err)}
	}
	return nil
}

// soakProcesses makes a leg of every mode, and as many more as there is time for.
func (e *env) soakProcesses(cmd *cobra.Command, o soakOptions) error {
	if err := o.checkProcesses(); err != nil {
		return err
	}
	record, done, err := soakRecord(o.out)
	if err != nil {
		return err
	}
	defer done()
	dir, err := os.MkdirTemp("", "gradlab-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var display *progress.Display
	if !o.quiet {
		display = progress.New(e.screen)
		defer display.Close()
	}
	began, failed := time.Now(), 0
	all := time.Duration(o.minutes * float64(time.Minute))
	for n := 0; n < len(o.modes) || all-time.Since(began) > all/10; n++ {
		if e.stop.Load() {
			break
		}
		length := min(all/time.Duration(len(o.modes)), max(all-time.Since(began), all/10))
		s := soakRun{dir: dir, display: display}
		leg, err := s.leg(cmd.Context(), o, o.from+uint64(n), o.modes[n%len(o.modes)], length)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s: %d processes made %d steps in %s; %d deaths, %d came back, %d memberships; %.1f MB in the first third, %.1f MB in the last\n",
			leg.Mode, leg.Ranks, leg.Steps, progress.Seconds(leg.Seconds), leg.Deaths, leg.Back, leg.Epochs, leg.First/1e6, leg.Last/1e6)
		for _, why := range leg.Broken {
			fmt.Fprintf(e.out, "  broken: %s\n", why)
		}
		if len(leg.Broken) > 0 {
			failed++
		}
		if err := record(leg); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d runs of processes failed", failed)
	}
	return cmd.Context().Err()
}

// soakRecord opens the record of a soak; "": there is none.
func soakRecord(path string) (record func(any) error, done func(), err error) {
	if path == "" {
		return func(any) error { return nil }, func() {}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--out: %w", err)}
	}
	return func(v any) error { return json.NewEncoder(f).Encode(v) }, func() { f.Close() }, nil
}

// soakRun makes the runs of a leg below a folder.
type soakRun struct {
	dir     string
	display *progress.Display
	memory  soak.Memory
}

// leg measures how fast steps are, makes a run of about so long under kills, and judges it.
func (s *soakRun) leg(ctx context.Context, o soakOptions, seed uint64, mode string, length time.Duration) (*soakLeg, error) {
	const calm = 1000
	l, err := soak.NewLeg(seed, mode, o.processes, calm)
	if err != nil {
		return nil, err
	}
	r, _, err := s.run(ctx, &l, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("without any kill: %w", err)
	}
	l.Steps = max(100, int(r.UpdateRate*length.Seconds()))
	every := time.Duration(o.every * float64(time.Second))
	l.Kill(min(every, length/10), length*9/10, every)
	s.memory = nil
	r, wall, err := s.run(ctx, &l, nil, min(max(length/100, 500*time.Millisecond), 10*time.Second))
	out := &soakLeg{Mode: mode, Seed: seed, Ranks: o.processes, Seconds: wall.Seconds(), Command: "gradlab run " + strings.Join(l.Args(nil), " ")}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		out.Broken = []string{err.Error()}
		return out, nil
	}
	out.Broken = l.Judge(r)
	out.Steps, out.Epochs = r.Steps, len(r.Members)
	out.Deaths, out.Back = soak.Moves(r.Members)
	out.First, out.Last = s.memory.Thirds(func(int) bool { return true })
	if grows := s.memory.Grows(); grows != "" && length >= 2*time.Minute {
		out.Broken = append(out.Broken, grows)
	}
	again, _, err := s.run(ctx, &l, r.Members, 0)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		out.Broken = append(out.Broken, fmt.Sprintf("by plan on the virtual cluster: %v", err))
	case again.ParamsSHA256 != r.ParamsSHA256:
		out.Broken = append(out.Broken, fmt.Sprintf("by plan on the virtual cluster it ends with other bits: %s, not %s", again.ParamsSHA256, r.ParamsSHA256))
	}
	return out, nil
}

// run makes a run of a leg: on processes, whose memory is taken every so often unless that
// is 0, or by plan on the virtual cluster.
func (s *soakRun) run(ctx context.Context, l *soak.Leg, plan []train.Membership, every time.Duration) (*experiments.Result, time.Duration, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp(s.dir, "run-")
	if err != nil {
		return nil, 0, err
	}
	args := append([]string{"run", "--json", "--no-plot", "--quiet", "--out", dir}, l.Args(plan)...)
	c := exec.CommandContext(ctx, exe, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	began := time.Now()
	if err := c.Start(); err != nil {
		return nil, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var marks <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		marks = t.C
	}
	for {
		select {
		case <-marks:
			s.memory = append(s.memory, held(c.Process.Pid))
			s.display.Count("soak", "marks of memory", int64(len(s.memory)), 0)
			continue
		case err = <-ended:
		}
		break
	}
	wall := time.Since(began)
	if err != nil {
		return nil, wall, fmt.Errorf("%w: %s", err, last(stderr.String(), 2000))
	}
	var r experiments.Result
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return nil, wall, fmt.Errorf("its result: %w", err)
	}
	return &r, wall, nil
}

// last is the end of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }

// held is the resident memory of a process that started ranks, and of these.
func held(pid int) map[int]uint64 {
	out := map[int]uint64{}
	if bytes, err := resident(pid); err == nil {
		out[soak.Observer] = bytes
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		b, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(b)) {
			child, _ := strconv.Atoi(field)
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			args := strings.Split(string(line), "\x00")
			for i, a := range args[:max(0, len(args)-1)] {
				if rank, err := strconv.Atoi(args[i+1]); a == "--rank" && err == nil {
					if bytes, err := resident(child); err == nil {
						out[rank] = bytes
					}
				}
			}
		}
	}
	return out
}

// resident is how much memory a process holds, in bytes.
func resident(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, errors.New("/proc tells no sizes")
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}
