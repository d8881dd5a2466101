package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/mpinet"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
)

// startedByMPI are variables of which a launcher of MPI jobs sets one: Open MPI's own,
// and those by which libraries meet their launcher.
var startedByMPI = []string{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}

// errNoMPIJob is the error of net=mpi where nobody has started several processes.
var errNoMPIJob = errors.New("net=mpi: mpirun starts the processes, one for each worker and server: mpirun -n 4 gradlab run RECIPE workers=4 net=mpi (gradlab launch mpi writes a script)")

// noMPIJob says what net=mpi needs, to a process that is not of an MPI job.
func noMPIJob() error {
	if !mpinet.Built {
		return &config.Error{Err: fmt.Errorf("net=mpi: %w", mpinet.ErrWithout)}
	}
	return &config.Error{Err: errNoMPIJob}
}

// WhoInMPI says which process of an MPI job this is. It starts MPI, which waits for all
// processes. getenv is os.Getenv. The error is a *config.Error where this is no such job,
// or the program was built without MPI.
func WhoInMPI(getenv func(string) string) (Who, error) {
	if !mpinet.Built || !slices.ContainsFunc(startedByMPI, func(name string) bool { return getenv(name) != "" }) {
		return Who{}, noMPIJob()
	}
	w, err := mpinet.Start()
	if err != nil {
		return Who{}, err
	}
	return Who{Rank: w.Rank, World: w.Size, Lead: w.Rank == 0, Source: w.Library + "'s launcher", Local: w.Local, Binds: true}, nil
}

// mpiNet is the net of a process of an MPI job: each is one rank, and the first one hosts
// the observer too.
func mpiNet(c config.Config, j *train.Job, timeout time.Duration) (*mpinet.Net, error) {
	ranks := make([][]int, j.World())
	for r := range ranks {
		ranks[r] = []int{r}
	}
	ranks[0] = append(ranks[0], j.Observer())
	return mpinet.New(mpinet.Config{
		Ranks: ranks, Identity: Identity(c, j), Run: j.Run, JoinTimeout: timeout, Deadline: config.LongestWait,
	})
}

// DoneInMPI tells all processes of an MPI job whether the run is done, which the leading
// one says: others may not see the run's folder. Nothing is left to do for them then.
func DoneInMPI(ctx context.Context, who Who, done bool) (bool, error) {
	ranks := make([][]int, who.World)
	for r := range ranks {
		ranks[r] = []int{r}
	}
	meet := func(more bool, program comm.Program) error {
		net, err := mpinet.New(mpinet.Config{Ranks: ranks, JoinTimeout: LaunchTimeout, More: more})
		if err != nil {
			return err
		}
		return net.Run(ctx, []comm.Program{program})
	}
	err := meet(true, func(ctx context.Context, h comm.Host) error {
		if !who.Lead {
			f, err := h.Recv(ctx, 0, verdictTag)
			if err == nil {
				done = f.Header.Code == verdictDone
				f.Release()
			}
			return err
		}
		head := comm.Header{Tag: verdictTag, Kind: comm.Report}
		if done {
			head.Code = verdictDone
		}
		for r := 1; r < who.World; r++ {
			if err := h.Send(ctx, r, comm.NewFrame(head, comm.NewBuffer(0))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !done {
		return false, err
	}
	return true, meet(false, func(context.Context, comm.Host) error { return nil })
}
