package cli

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/soak"
	"github.com/gradlab/gradlab/registry"
)

// soakOptions are the flags of gradlab soak.
type soakOptions struct {
	seeds, from uint64
	hours       float64
	modes       []string
	jobs        int
	out         string
	quiet       bool
	processes   int
	minutes     float64
	every       float64

	beside func(comm.Host) comm.Host // a test's
}

// soakSum is what many seeds came to: the last line of the record.
type soakSum struct {
	From     uint64         `json:"from"`
	Seeds    uint64         `json:"seeds"`
	Failed   []uint64       `json:"failed,omitempty"`
	Done     int            `json:"done"`     // runs that were done
	Lived    int            `json:"outlived"` // of these, such as outlived a rank
	Ended    int            `json:"ended"`    // runs that ended with an error that says who is gone
	Modes    map[string]int `json:"modes"`
	Virtual  float64        `json:"virtual_seconds"`
	Wall     float64        `json:"wall_seconds"`
	Revision string         `json:"version"`
}

// soakFailure is a seed that failed: a line of the record.
type soakFailure struct {
	Seed    uint64   `json:"seed"`
	Broken  []string `json:"broken"`
	Recipe  string   `json:"recipe"` // of the shortest schedule that still fails
	Faults  string   `json:"faults"` // as they were drawn
	Failure string   `json:"error,omitempty"`
}

func (e *env) soakCommand() *cobra.Command {
	var o soakOptions
	c := &cobra.Command{
		Use: "soak", Hidden: true, // for those who work on the engine: docs/faults.md
		Short: "Random runs under random faults, and whether all promises hold",
		Long: `Soak makes small runs of every mode on the virtual cluster, each from a seed, with
random faults (gradlab list faults): deaths, pauses, partitions, bad links. After each
it checks what was promised:

  gradients sent are applied, rejected or lost; versions rise; the dead are not heard;
  workers in step agree; what a mode says it outlives it outlives, and what it does not
  ends with an error that says who is gone; the same seed makes the same run again, bit
  for bit; faults that only take time change nothing that no time decides.

A seed that fails is cut down to the shortest schedule of faults that still fails, and
printed as a recipe. Seeds go up from --from: the same seed is the same run.

  gradlab soak --seeds 10000
  gradlab soak --hours 8 --from 1000000 --out soak.jsonl
  gradlab soak --seeds 100 --modes adpsgd,server

With --processes it makes runs of real processes instead: elastic ones, with net=grpc,
whose workers are killed at random and come back. After each all steps must be made,
what servers were sent must count, and the bits must be those of the run on the virtual
cluster that workers leave and join by the same plan. Resident memory of all processes
is taken at marks; from two minutes on it must not grow by more than a fifth from the
first third of the run to the last.

  gradlab soak --processes 16 --minutes 30 --modes reduce,server

--out appends to a file: a JSON line for each seed that failed, and one for all. The
exit code is 0 if everything held, 1 if a seed failed. Ctrl-C ends it with what it
has by then.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("soak draws its runs by itself and takes no %q; --modes says of which modes", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return e.soak(cmd, o) },
	}
	f := c.Flags()
	f.Uint64Var(&o.seeds, "seeds", 0, "how many seeds to try; 0: 200, or as many as --hours allow")
	f.Uint64Var(&o.from, "from", 0, "the first seed")
	f.Float64Var(&o.hours, "hours", 0, "how long to go on; 0: until all seeds are tried")
	f.StringSliceVar(&o.modes, "modes", nil, "modes to try, in turns (default: all that a virtual cluster runs)")
	f.IntVar(&o.jobs, "jobs", 0, "seeds tried at once; 0: one a core")
	f.StringVar(&o.out, "out", "", "file to which what came of it is appended, as JSON lines")
	f.IntVar(&o.processes, "processes", 0, "kill real processes, so many, instead of virtual ones; Linux")
	f.Float64Var(&o.minutes, "minutes", 1, "with --processes: how long, all modes together")
	f.Float64Var(&o.every, "every", 20, "with --processes: seconds from one kill to the next, on average")
	f.BoolVar(&o.quiet, "quiet", false, "no progress")
	return c
}

// check completes the flags, or says what is wrong with them.
func (o *soakOptions) check() error {
	if !(o.hours >= 0 && o.hours <= 1e5) || o.jobs < 0 {
		return usageError{fmt.Errorf("--hours %v, --jobs %d: want 0 or more", o.hours, o.jobs)}
	}
	known := soak.Modes()
	for _, m := range o.modes {
		if !slices.Contains(known, m) {
			return usageError{fmt.Errorf("--modes: no mode named %q on a virtual cluster; %s", m, registry.Suggest(m, known))}
		}
	}
	if o.modes == nil {
		o.modes = known
	}
	if o.jobs == 0 {
		o.jobs = runtime.GOMAXPROCS(0)
	}
	if o.seeds == 0 {
		if o.seeds = 200; o.hours > 0 {
			o.seeds = math.MaxInt64
		}
	}
	return nil
}

func (e *env) soak(cmd *cobra.Command, o soakOptions) error {
	if o.processes != 0 {
		return e.soakProcesses(cmd, o)
	}
	if err := o.check(); err != nil {
		return err
	}
	record, done, err := soakRecord(o.out)
	if err != nil {
		return err
	}
	defer done()
	var display *progress.Display
	if !o.quiet {
		display = progress.New(e.screen)
		defer display.Close()
	}
	began := time.Now()
	over := began.Add(time.Duration(o.hours * float64(time.Hour)))
	s := soak.Soak{Places: e.places(), Modes: o.modes, Beside: o.beside}
	sum := soakSum{From: o.from, Modes: map[string]int{}, Revision: experiments.ThisVersion().String()}
	var broken error
	var given uint64
	next := func() bool {
		given++
		return given <= o.seeds && !e.stop.Load() && (o.hours == 0 || time.Now().Before(over))
	}
	s.Many(cmd.Context(), o.from, o.jobs, next, func(seed uint64, t, least *soak.Trial, err error) {
		sum.Seeds++
		if t != nil {
			sum.take(t)
		}
		if err != nil || least != nil {
			broken = errors.Join(broken, e.soakFailed(&sum, seed, t, least, err, display, record))
		}
		if o.hours == 0 {
			display.Count("soak", "seeds", int64(sum.Seeds), int64(o.seeds))
		} else {
			display.Count("soak", "seconds", min(int64(time.Since(began).Seconds()), int64(3600*o.hours)), int64(3600*o.hours))
		}
	})
	sum.Wall = time.Since(began).Seconds()
	if err := errors.Join(broken, record(sum)); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if display != nil {
		display.Close()
	}
	fmt.Fprintf(e.out, "%d seeds from %d over %d modes: %d runs were done, %d of them without ranks that had died; %d ended with an error that says who is gone; %s virtual, %s wall\n",
		sum.Seeds, sum.From, len(sum.Modes), sum.Done, sum.Lived, sum.Ended, progress.Seconds(sum.Virtual), progress.Seconds(sum.Wall))
	if n := len(sum.Failed); n > 0 {
		slices.Sort(sum.Failed)
		return fmt.Errorf("%d of %d seeds failed: %s", n, sum.Seeds, strings.Trim(fmt.Sprint(sum.Failed), "[]"))
	}
	return cmd.Context().Err()
}

// take counts a trial.
func (s *soakSum) take(t *soak.Trial) {
	mode, _, _ := strings.Cut(t.Config.Mode, "(")
	s.Modes[mode]++
	s.Virtual += t.Took.Seconds()
	switch {
	case t.Ended != nil:
		s.Ended++
	default:
		s.Done++
		if t.Deaths > 0 {
			s.Lived++
		}
	}
}

// soakFailed tells of a seed that failed.
func (e *env) soakFailed(sum *soakSum, seed uint64, t, least *soak.Trial, err error, d *progress.Display, record func(any) error) error {
	sum.Failed = append(sum.Failed, seed)
	if err != nil {
		d.Logf("no run could be made: %v", err)
		return record(soakFailure{Seed: seed, Failure: err.Error()})
	}
	recipe := least.Recipe()
	d.Logf("seed %d: %s", seed, strings.Join(least.Wrong, "; "))
	fmt.Fprintf(e.out, "%s\n", recipe)
	return record(soakFailure{Seed: seed, Broken: least.Wrong, Recipe: recipe, Faults: t.Config.Faults})
}
