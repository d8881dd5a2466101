package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/regular"
)

const joinLong = `Join runs one rank. Rank and the coordinator's address come from flags or, in
this order, from what launchers set: RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT (torchrun; the port behind it where torchrun's agent listens there
itself); PET_NODE_RANK and PET_NNODES; OMPI_COMM_WORLD_RANK; PMI_RANK;
SLURM_PROCID; JOB_COMPLETION_INDEX; TF_CONFIG. In a step of srun Slurm's variables
go before PMI's. All ranks are given the same recipe and keys. Workers are ranks 0 … workers−1, servers follow.

The process of rank 0 coordinates: it listens at the coordinator's address, and
evaluates and records the run. Every process needs the run's secret, in a file
named by --token-file or in GRADLAB_TOKEN, of at least 128 bits.

Each rank listens where it reaches the coordinator from, and the coordinator tells
the others at which address it sees it, so that all ranks of several hosts can be
given the same flags. --advertise names another address, for a rank behind a
translation. --listen names one to listen at: port 0 is the coordinator's port at
rank 0, and any free one elsewhere. A coordinator's name that is not known yet is
asked for again, until --timeout.

Beyond loopback all is TLS 1.3. Certificates follow from the run's secret, or are
read from files: --tls-cert, --tls-key and --tls-ca, on all ranks. A certificate
with URIs gradlab:rank/N is good for these ranks only.

Where the launcher says how many ranks a host has, or how many cores a rank is
granted, the ranks of a host share its cores; the key threads overrides.

With net=mpi, in the recipe or as a key, MPI says who is who, and carries all: the
flags of addresses and secrets are not needed then, and mean nothing.`

func (e *env) joinCommand() *cobra.Command {
	var rank int
	var coordinator, listen, advertise, tokenFile, out string
	var certificates func() (*tls.Config, error)
	var insecure, resume, older, shared bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "join RECIPE|FILE [key=value …]",
		Short: "Be one rank of a run made of several processes",
		Long:  joinLong,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("join needs the run's recipe or config file")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			recipe, runs, mpi, err := e.loadRanks(args[0], args[1:])
			if err != nil {
				return err
			}
			if len(runs) != 1 {
				return usageError{fmt.Errorf("%s holds %d runs; a process joins one: give each axis one value", args[0], len(runs))}
			}
			below := experiments.Options{Recipe: recipe.Name, Out: out, Resume: resume, AllowOlder: older, Shared: shared, Places: e.places(), Stopping: e.stop.Load, Requeue: &e.requeue, Args: e.args}
			if mpi {
				if leads, err := e.inMPI(cmd.Context(), runs[0], &below, timeout); err != nil || !leads {
					return err
				}
				return e.leadJoined(cmd.Context(), runs[0], below)
			}
			who, err := experiments.Whoami(os.Getenv, rank, coordinator)
			if err != nil {
				return usageError{err}
			}
			token, err := readToken(tokenFile)
			if err != nil {
				return usageError{err}
			}
			files, err := certificates()
			if err != nil {
				return err
			}
			o := experiments.JoinOptions{
				Identity: who, Listen: listen, Advertise: advertise, Token: token, TLS: files, Insecure: insecure, Timeout: timeout, Getenv: os.Getenv, Places: below.Places, Stopping: below.Stopping, Requeue: below.Requeue,
				Logf: func(f string, a ...any) { fmt.Fprintf(e.err, f+"\n", a...) },
			}
			o.Folder = func() string {
				path, _ := experiments.Folder(runs[0], below)
				return path
			}
			if who.Source != "flags" {
				fmt.Fprintf(e.err, "rank %d of %s, from %s\n", who.Rank, recipe.Name, who.Source)
			}
			if !who.Lead {
				if path, done := experiments.Folder(runs[0], below); done && resume {
					fmt.Fprintf(e.err, "the run is done, in %s, and nothing is left to join\n", path)
					return nil
				}
				return experiments.Join(cmd.Context(), runs[0], o)
			}
			below.Lead = &o
			return e.leadJoined(cmd.Context(), runs[0], below)
		},
	}
	f := c.Flags()
	f.IntVar(&rank, "rank", -1, "which rank this process is")
	f.StringVar(&coordinator, "coordinator", "", "host:port of the coordinating process")
	f.StringVar(&listen, "listen", "", "host:port to listen at; default: where the coordinator is reached from")
	f.StringVar(&advertise, "advertise", "", "host or host:port at which the others reach this rank; default: where the coordinator sees it")
	f.StringVar(&tokenFile, "token-file", "", "file with the run's secret")
	f.DurationVar(&timeout, "timeout", time.Minute, "how long to wait for all ranks")
	f.BoolVar(&insecure, "insecure-listen-i-accept-plaintext", false, "no TLS, on all ranks: who hears the network reads gradients and parameters")
	certificates = tlsFlags(f)
	f.StringVar(&out, "out", "runs", "base folder of run folders (rank 0)")
	f.BoolVar(&resume, "resume", false, "go on with a stopped run; the others see below --out, too, whether it is done")
	f.BoolVar(&older, "allow-older", false, "with --resume: where the last checkpoint is damaged, go on from the one before (rank 0)")
	f.BoolVar(&shared, "shared", false, sharedUsage+" (rank 0)")
	return c
}

// leadJoined makes the run whose other ranks come to this process, and prints what it came
// to.
func (e *env) leadJoined(ctx context.Context, run config.Run, opt experiments.Options) error {
	opt.Display = progress.New(e.screen)
	defer opt.Display.Close()
	r, err := experiments.Execute(ctx, run, opt)
	opt.Display.Close()
	if r != nil {
		made, terr := store.Made([]*experiments.Result{r})
		if terr == nil {
			terr = store.Summary(e.out, "box", made)
		}
		if terr != nil {
			return terr
		}
	}
	return err
}

// readToken reads the run's secret from a file, or from the environment if none is
// named.
func readToken(file string) (string, error) {
	token := os.Getenv("GRADLAB_TOKEN")
	if file != "" {
		b, err := regular.ReadText(file, regular.Text)
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		token = string(b)
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", fmt.Errorf("a run of several processes needs a secret: --token-file or GRADLAB_TOKEN")
	}
	return token, grpcnet.CheckToken(token)
}
