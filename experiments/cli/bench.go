package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (e *env) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Speed of this machine, beside the peers that are installed",
		Long: `Bench measures speed, nothing else: what is computed is real, what is learned
does not matter.

  gradlab bench train          training steps, beside PyTorch with --peer torch
  gradlab bench data           pictures decoded and cropped, beside PIL with --peer pil
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
	c.AddCommand(e.benchTrainCommand(), e.benchDataCommand(), e.benchCollectivesCommand(), e.benchCodecsCommand(), e.benchRankCommand())
	return c
}
