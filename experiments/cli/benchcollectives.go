package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/bench"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) benchCollectivesCommand() *cobra.Command {
	o := bench.WireOptions{Command: append([]string{"gradlab"}, e.args...), Environ: os.Environ()}
	var sizes, links, peers []string
	var python string
	var asJSON bool
	c := &cobra.Command{
		Use:   "collectives",
		Short: "All-reduces, streams and training steps between processes, beside gloo and Open MPI",
		Long: `Collectives starts processes of its own on this machine and measures, between them:

  allreduce   sums of float32 vectors, in groups of --procs, for each of --sizes
  stream      one link: messages one way and there and back, beside a bare TCP
              connection under the same congestion control, or one of crypto/tls
  step        a training step of the MLP 784-512-256-10 in two processes, 32
              samples in each, with each of --codecs

Ours run once for each of --links: tcp (TCP on loopback), tls (the same under TLS, as
between hosts), grpc, shm (shared memory) and mpi, which net=mpi uses, in a program that
was built with the tag mpi. With --topology mpi its sums are the library's own.
A process of a group of n uses cores/n threads.

--peer gloo runs torch.distributed as it is installed, in the steps too, there with
DistributedDataParallel and its hooks. --peer ompi runs MPI_Allreduce of Open MPI,
once with its TCP and once with its shared memory. All groups of a row exist at the
same time and take turns: in each of --rounds rounds every one has a block of
--seconds, the others wait for input. A ratio is the median of the rounds', above 1
where ours is faster. Every all-reduce is checked for the right sums first.

Bus GB/s are bytes/time·2(n−1)/n: what a ring would move over each link. CPU s/GB is the
processor time of all processes of a row, on Linux, over 2(n−1)·bytes.

Peers need: apt-get install python3-torch openmpi-bin libopenmpi-dev`,
		Args: flagsOnly("bench collectives"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			display := progress.New(e.screen)
			defer display.Close()
			o.Logf = display.Logf
			for _, s := range sizes {
				n, err := bench.ParseSize(s)
				if err != nil {
					return usageError{err}
				}
				o.Sizes = append(o.Sizes, n)
			}
			for _, l := range links {
				o.Links = append(o.Links, grpcnet.Links(l))
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			if err := findPeers(ctx, &o, peers, python); err != nil {
				return usageError{err}
			}
			if o.OpenMPI != nil {
				defer o.OpenMPI.Close()
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Self = []string{self, "bench", "rank"}
			report, failed := bench.Wire(ctx, o)
			return e.benchEnded(report, true, asJSON, failed)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.Sections, "section", bench.Sections(), "what to measure")
	f.IntSliceVar(&o.Procs, "procs", []int{2, 4, 8}, "all-reduce: numbers of processes")
	f.StringSliceVar(&sizes, "sizes", []string{"4KB", "64KB", "1MB", "16MB", "64MB"}, "all-reduce: sizes of the vector")
	f.StringSliceVar(&links, "links", []string{"tcp", "tls", "grpc", "shm"}, "what ours talk through: tcp, tls, grpc, shm, mpi")
	f.StringVar(&o.Topology, "topology", "auto", "plan of our all-reduces (gradlab list topologies)")
	f.StringSliceVar(&o.Codecs, "codecs", bench.StepCodecs(), "step: codecs of the gradients (gradlab list codecs)")
	f.StringSliceVar(&peers, "peer", nil, "who to measure beside us: gloo, ompi")
	f.StringVar(&python, "python", "", "python that can import torch (default: python3, then /usr/bin/python3)")
	f.IntVar(&o.Rounds, "rounds", 5, "rounds of turns")
	f.Float64Var(&o.Seconds, "seconds", 0.3, "seconds of a contender in a round, at least")
	f.BoolVar(&asJSON, "json", false, "print one JSON document with every figure")
	return c
}

// findPeers looks for who is to be measured beside us. Open MPI is the caller's to
// close.
func findPeers(ctx context.Context, o *bench.WireOptions, peers []string, python string) (err error) {
	for _, p := range peers {
		switch {
		case p == "gloo":
			o.Torch, err = bench.FindTorch(ctx, python, os.Environ())
		case p == "ompi" && o.OpenMPI == nil:
			o.OpenMPI, err = bench.FindOpenMPI(ctx, os.Environ())
		case p != "ompi":
			err = fmt.Errorf("no peer %q; there are gloo and ompi", p)
		}
		if err != nil {
			if o.OpenMPI != nil {
				o.OpenMPI.Close()
			}
			return err
		}
	}
	return nil
}

// benchRankCommand is a process of bench collectives.
func (e *env) benchRankCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "rank",
		Short:  "A process that bench collectives starts",
		Hidden: true,
		Args:   cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return bench.RunMPIRank(cmd.Context(), args[0], e.raw)
			}
			return bench.RunRank(cmd.Context(), os.Stdin, e.raw)
		},
	}
}
