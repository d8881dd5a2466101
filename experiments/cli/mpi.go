package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

// onMPI says whether any of the runs has net=mpi. One alone can be made then: the
// processes that mpirun has started are its ranks.
func onMPI(runs []config.Run) (bool, error) {
	if !slices.ContainsFunc(runs, led) {
		return false, nil
	}
	if len(runs) > 1 {
		return true, usageError{fmt.Errorf("net=mpi: the processes that mpirun starts are the ranks of one run, and these are %d: give each axis one value, and start mpirun for each", len(runs))}
	}
	return true, nil
}

// led reports whether the ranks of a run are processes of an MPI job.
func led(r config.Run) bool { return r.Config.OnNet().Ranks == config.RanksLed }

// loadRanks is load of runs whose ranks somebody else starts as processes: those of
// net=mpi by MPI, all others as those of net=grpc, where the recipe would run them in one process.
func (e *env) loadRanks(name string, overrides []string) (*config.Recipe, []config.Run, bool, error) {
	recipe, runs, err := e.load(name, overrides, false)
	if err == nil && slices.ContainsFunc(runs, led) {
		return recipe, runs, true, nil
	}
	if err == nil && !slices.ContainsFunc(runs, func(r config.Run) bool { return r.Config.OnNet().Ranks != config.RanksLaunched }) {
		return recipe, runs, false, nil
	}
	recipe, runs, err = e.load(name, append(slices.Clone(overrides), "net=grpc"), false)
	return recipe, runs, false, err
}

// inMPI makes opt the options of rank 0's process of an MPI job, which leads the run. Any
// other process is its rank until the run has ended, or learns that it is done: then
// leads is false, and nothing is left to do.
func (e *env) inMPI(ctx context.Context, run config.Run, opt *experiments.Options, timeout time.Duration) (leads bool, err error) {
	who, err := experiments.WhoInMPI(os.Getenv)
	if err != nil {
		return false, err
	}
	_, done := experiments.Folder(run, *opt)
	done, err = experiments.DoneInMPI(ctx, who, done && opt.Resume)
	if err != nil || done && !who.Lead {
		return who.Lead, err
	}
	o := experiments.JoinOptions{
		Identity: who, Timeout: timeout, Getenv: os.Getenv, Places: opt.Places, Stopping: e.stop.Load, Requeue: &e.requeue,
		Folder: func() string { path, _ := experiments.Folder(run, *opt); return path },
		Logf:   func(f string, a ...any) { fmt.Fprintf(e.err, f+"\n", a...) },
	}
	if !who.Lead {
		return false, experiments.Join(ctx, run, o)
	}
	opt.Lead = &o
	return true, nil
}
