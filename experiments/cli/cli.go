// Package cli is the command line: it reads arguments and environment, and
// hands everything else to package experiments.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/mpinet"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/external"
)

// Exit codes. Schedulers can tell what is worth another try.
const (
	ExitOK      = 0
	ExitFailed  = 1   // the run failed, and would again
	ExitConfig  = 2   // what was asked for cannot be
	ExitJoin    = 3   // cannot bind, or was refused by the other ranks
	ExitRequeue = 75  // to be started again, with --resume: a rank was lost or did not come, or SIGUSR1 stopped it
	ExitStopped = 143 // stopped by another signal; a run, after a checkpoint
)

// env is what all commands share.
type env struct {
	out, err io.Writer // through printers, so that text of others does nothing to a terminal
	raw      io.Writer // below out, for jobs, recipes and programs
	screen   io.Writer // below err, for what draws on a terminal, and for programs
	v        *viper.Viper
	settings settings
	stop     atomic.Bool
	requeue  atomic.Bool // the stop was asked for by a scheduler that starts it again
	twice    atomic.Bool // a second signal ends the command at once
	brief    atomic.Bool // the command has no steps between which it could stop
	args     []string
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	collector.bound(100)
	out, errs := regular.NewPrinter(stdout, 0), regular.NewPrinter(stderr, regular.LongestLine)
	defer out.Flush()
	defer errs.Flush()
	e := &env{out: out, err: errs, raw: stdout, screen: stderr, v: newViper(), args: args}
	root := e.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(errs)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer e.onSignals(cancel)()
	defer external.CloseAll()
	defer mpinet.End()
	is, err := experiments.AsRank(ctx, experiments.JoinOptions{Getenv: os.Getenv, Stopping: e.stop.Load, Requeue: &e.requeue,
		Logf: func(f string, a ...any) { fmt.Fprintf(e.err, f+"\n", a...) }})
	if !is {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return ExitOK
	}
	var usage usageError
	var config *config.Error
	var mismatch *grpcnet.MismatchError
	var refused *grpcnet.RefusedError
	var addr *grpcnet.AddressError
	switch {
	case e.twice.Load() && errors.Is(err, context.Canceled):
		return ExitFailed
	case e.brief.Load() && errors.Is(err, context.Canceled):
		fmt.Fprintln(errs, "gradlab: stopped")
		return e.stoppedCode()
	case errors.Is(err, experiments.ErrStopped), errors.Is(err, errBenchStopped):
		fmt.Fprintln(errs, "gradlab:", regular.Shown(err.Error()))
		return e.stoppedCode()
	case errors.As(err, &usage), errors.As(err, &config), errors.As(err, &addr) && addr.Unsafe:
		fmt.Fprintln(errs, "gradlab:", regular.Shown(err.Error()))
		return ExitConfig
	case errors.As(err, &mismatch), errors.As(err, &refused), errors.As(err, &addr):
		fmt.Fprintln(errs, "gradlab:", regular.Shown(err.Error()))
		return ExitJoin
	}
	fmt.Fprintln(errs, "gradlab:", regular.Shown(err.Error()))
	if over := (*handedOver)(nil); errors.As(err, &over) && over.code > 0 {
		return over.code
	}
	if again(err) {
		return ExitRequeue
	}
	return ExitFailed
}

// again says whether another try may go well: a process was lost, or came too late.
func again(err error) bool {
	var gone *comm.PeerError
	var fenced *grpcnet.FencedError
	var missing *grpcnet.MissingError
	var late *mpinet.MissingError
	return errors.As(err, &gone) && gone.Lost || errors.As(err, &fenced) || errors.As(err, &missing) && !missing.Refused || errors.As(err, &late)
}

// stoppedCode is the exit code of a command that a signal has stopped.
func (e *env) stoppedCode() int {
	if e.requeue.Load() {
		return ExitRequeue
	}
	return ExitStopped
}

// atOnce is how long a command may take to end when it is told to end at once.
const atOnce = time.Second

// signals tells a second signal from an echo of the first: srun, timeout,
// and shells whose whole group is signalled, send one twice for one stop. SIGUSR1 comes ahead of
// SIGTERM, so that it never is the first of two.
type signals struct {
	n     int
	first os.Signal
	at    time.Time
}

const (
	sigFirst = iota
	sigEcho
	sigAgain
)

// echo is how long behind a signal another one is the same: timeout signals a program and
// then its group, which nobody does by hand as fast; srun waits up to a second.
var echo = map[os.Signal]time.Duration{syscall.SIGTERM: time.Second, os.Interrupt: 200 * time.Millisecond}

func (s *signals) take(sig os.Signal, now time.Time) int {
	if requeue != nil && sig == requeue {
		if s.n == 0 && s.at.IsZero() {
			s.at = now
			return sigFirst
		}
		return sigEcho
	}
	if s.n++; s.n == 1 {
		s.first, s.at = sig, now
		return sigFirst
	}
	if sig == s.first && now.Sub(s.at) < echo[sig] {
		return sigEcho
	}
	return sigAgain
}

// onSignals asks the run to stop at the first SIGINT, SIGTERM or SIGUSR1 and ends it at
// the second. A command without steps ends at the first.
func (e *env) onSignals(cancel func()) (undo func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, stopSignals...)
	done := make(chan struct{})
	end := func(code int) {
		cancel()
		select {
		case <-done:
		case <-time.After(atOnce): // a long computation hears of nothing
			os.Exit(code)
		}
	}
	go func() {
		for s := (signals{}); ; {
			select {
			case <-done:
				return
			case sig := <-ch:
				if requeue != nil && sig == requeue { // known before the stop is
					e.requeue.Store(true)
				}
				e.stop.Store(true)
				next := s.take(sig, time.Now())
				switch {
				case e.brief.Load():
					end(e.stoppedCode())
					return
				case next == sigAgain:
					e.twice.Store(true)
					fmt.Fprintln(e.err, "gradlab: ending at once; --resume goes on from the last checkpoint, if there is one")
					end(ExitFailed)
					return
				case next == sigEcho:
					continue
				}
				external.Hurry(experiments.HurryTime)
				fmt.Fprintln(e.err, "gradlab: stopping at the next step, or mark; once more ends at once")
			}
		}
	}()
	return func() { signal.Stop(ch); close(done) }
}

// atFirst makes a command end at the first signal: it has no steps, and nothing
// to keep.
func (e *env) atFirst(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		e.brief.Store(true)
		return run(cmd, args)
	}
	return c
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gradlab",
		Short: "Which optimizer, staleness rule, codec and topology reaches the accuracy soonest, and at how many bytes?",
		Long: `gradlab trains real models over many workers, in goroutines (--net local), in
processes over gRPC (--net grpc) or on a virtual cluster (--net sim), and tells
what each choice costs in accuracy, time and bytes.

Start with:   gradlab run quickstart
Then:         gradlab list            everything there is, by name
              gradlab list keys       every key of a configuration
              gradlab show runs/…     a run's record`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; %s", args[0], orElsewhere(cmd, args[0], commandNames(cmd), "gradlab help lists all"))}
			}
			return nil
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return e.settle(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return e.home(cmd) },
	}
	root.SetFlagErrorFunc(flagError)
	root.Version = experiments.ThisVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	f := root.PersistentFlags()
	f.String("data-dir", "", "folder with data sets (or GRADLAB_DATA_DIR)")
	f.String("cache-dir", "", "where downloads go (or GRADLAB_CACHE_DIR); default: the user's cache")
	_ = e.v.BindPFlag("data-dir", f.Lookup("data-dir"))
	_ = e.v.BindPFlag("cache-dir", f.Lookup("cache-dir"))
	root.AddCommand(e.runCommand(), e.extendCommand(), e.versionCommand(), e.listCommand(), e.initCommand(), e.scheduleCommand(), e.atFirst(e.recipeCommand()), e.showCommand(), e.weightsCommand(), sampleCommand(e), e.joinCommand(), e.launchCommand(), e.dataCommand(), e.codecCommand(), e.benchCommand(), e.reproduceCommand(), e.atFirst(e.topologyCommand()), e.atFirst(timelineCommand(e.out)), e.sweepCommand(), e.sweepJobCommand(), e.runsCommand(), e.atFirst(e.adviseCommand()), e.reportCommand(), e.serveCommand(), e.atFirst(e.replayCommand()), e.atFirst(e.whatifCommand()), e.notebookCommand(), e.pythonCommand(), e.atFirst(e.virtualCommand()), e.atFirst(e.calibrateCommand()), e.soakCommand())
	root.SetHelpCommand(e.helpCommand(root))
	arrange(root)
	complete(root)
	return root
}

func commandNames(root *cobra.Command) (out []string) {
	for _, c := range root.Commands() {
		out = append(out, c.Name())
	}
	return out
}

// places says where data are looked for.
func (e *env) places() config.Places {
	p := config.Places{Dir: e.v.GetString("data-dir"), Cache: e.v.GetString("cache-dir")}
	if p.Cache == "" {
		p.Cache, _ = data.DefaultCache()
	}
	p.Codecs = coding.NewMeter(filepath.Join(p.Cache, "codec-rates"))
	p.Codecs.Note = func(format string, args ...any) { fmt.Fprintf(e.err, format+"\n", args...) }
	return p
}

// load reads a recipe and resolves its runs; what is wrong with either is told
// together.
func (e *env) load(name string, overrides []string, quick bool) (*config.Recipe, []config.Run, error) {
	return e.loadForm(name, "", overrides, quick)
}

// loadForm is load for a form of the recipe; "": as it is written.
func (e *env) loadForm(name, form string, overrides []string, quick bool) (*config.Recipe, []config.Run, error) {
	recipe, err := config.LoadRecipe(name)
	if recipe == nil {
		return nil, nil, usageError{err}
	}
	if form != "" {
		if recipe, err = recipe.Form(form); err != nil {
			return nil, nil, usageError{err}
		}
	}
	runs, over := recipe.Runs(overrides, quick)
	if err = errors.Join(err, over); err != nil {
		return nil, nil, usageError{err}
	}
	return recipe, runs, nil
}
