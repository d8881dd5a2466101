package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func (e *env) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Speed of this machine, beside the peers that are installed",
		Long: `Bench measures speed, nothing else: what is computed is real, what is learned
does not matter.

  gradlab bench train          training steps, beside PyTorch with --peer torch
  gradlab bench collectives    processes that talk, beside gloo and Open MPI with
                               --peer gloo,ompi
  gradlab bench codecs         encoding and decoding on one core, as a table by which
                               the virtual cluster bills codecs

How to read it. Figures are medians over blocks of steps, and the spread beside
them is that of the blocks. A peer runs in the same command, block by block in
turn with ours, so that a machine that slows down or speeds up does so for both;
a ratio is the median of the rounds' ratios, above 1 where we are faster. Compare
ratios, not figures of different runs: those of a shared machine move by a tenth
and more.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("nothing called %q to bench; see gradlab bench --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.benchTrainCommand(), e.benchCollectivesCommand(), e.benchCodecsCommand(), e.benchRankCommand())
	return c
}

// flagsOnly refuses arguments of a command that takes none.
func flagsOnly(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError{fmt.Errorf("%s takes no arguments, only flags: %q; see gradlab %[1]s --help", command, args[0])}
		}
		return nil
	}
}

// errBenchStopped ends a benchmark that a signal stopped; what was complete by
// then has been printed.
var errBenchStopped = errors.New("stopped before the end")

// benchEnded prints what was measured, as JSON or, if there are some figures, as tables.
// failed is why the benchmark ended before its end.
func (e *env) benchEnded(report interface {
	WriteTables(w io.Writer, style string) error
}, some, asJSON bool, failed error) (err error) {
	if errors.Is(failed, context.Canceled) {
		failed = errBenchStopped
	}
	if asJSON {
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else if some {
		err = report.WriteTables(e.out, "box")
	}
	return errors.Join(failed, err)
}
