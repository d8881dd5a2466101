package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/bench"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) benchDataCommand() *cobra.Command {
	var sizes []int
	var pictures, peer, python string
	var seconds float64
	var asJSON bool
	c := &cobra.Command{
		Use:   "data",
		Short: "Pictures decoded and cropped by one core, beside PIL",
		Long: `Data reads training pictures from their files, decodes them, crops them at random
and scales the crops to --size. Without --pictures it makes JPEGs of 500×375 pixels
with structure at every scale. Figures are pictures a second of processor time, so
others on the machine count less; one core works.

  full       every JPEG as a whole, the default of picture sets
  cached     cache=8/7 of the size: pictures scaled once, before anything is measured
  reduced    decode=reduced: the crop alone, at 1/2, 1/4 or 1/8 where that is enough

Ours ends with normalised float32, PIL's with bytes.

--peer pil runs PIL, which has libjpeg-turbo, on the same files, block by block in
turn with ours, in two processes:

  pil        as torchvision does: decode, convert to RGB, scale the box
  draft      the same, decoded at 1/2, 1/4 or 1/8 where that is enough

The ratio is ours, reduced, to that of the faster of the two: the median of the
rounds'. It needs a python with PIL: apt-get install python3-pil`,
		Args: flagsOnly("bench data"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			display := progress.New(e.err)
			defer display.Close()
			o := bench.DataOptions{Sizes: sizes, Pictures: pictures, Seconds: seconds, Command: append([]string{"gradlab"}, e.args...), Logf: display.Logf}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			var err error
			switch peer {
			case "":
			case "pil":
				if o.PIL, err = bench.FindPIL(ctx, python, os.Environ()); err != nil {
					return usageError{err}
				}
			default:
				return usageError{fmt.Errorf("no peer %q; there is pil", peer)}
			}
			report, failed := bench.Data(ctx, o)
			return e.benchEnded(report, len(report.Rows) > 0, asJSON, failed)
		},
	}
	f := c.Flags()
	f.IntSliceVar(&sizes, "size", []int{224, 64}, "sides of a sample in pixels, a row for each")
	f.StringVar(&pictures, "pictures", "", "a folder of your own, with a folder for each class (default: pictures made here)")
	f.Float64Var(&seconds, "seconds", 4, "seconds of measuring for each contender and row")
	f.StringVar(&peer, "peer", "", "who to measure beside us: pil")
	f.StringVar(&python, "python", "", "python that can import PIL (default: python3, then /usr/bin/python3)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document with every figure")
	return c
}
