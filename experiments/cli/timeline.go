package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/ask"
)

// timelineCommand writes to out.
func timelineCommand(out io.Writer) *cobra.Command {
	var q ask.TimelineQuestion
	var csv string
	var asJSON bool
	c := &cobra.Command{
		Use:   "timeline SCHEDULE|FILE.csv [STAGES MICROS]",
		Short: "A pipeline schedule: who does what when, and who waits",
		Long: `Timeline proves a schedule of a pipeline (gradlab list pipelines), draws it, and says
how long it takes and what devices hold, beside all other schedules. STAGES is the
number of devices that hold a model's stages, MICROS that of a batch's
micro-batches.

  gradlab timeline 1f1b 4 8
  gradlab timeline 'interleaved(chunks=3)' 4 8 --move 0.2

F3 is micro-batch 3 on its way forward, B3 on its way back. I3 makes the gradient of
a stage's inputs alone, W3 that of its weights. Before the letter stands the stage
where a device has several and there is room. A device waits where there are dots.

--forward, --inputs and --weights say how long the passes of a stage take, in any
unit: one value for all stages, or one each. Of schedules with several stages on a
device these are of the smaller stages. What moves between devices takes --move, and
nobody waits for the sender.

In the table, time is from the first pass to the last, waiting the share of it in
which a device does nothing, and held the most that a device holds at once: of how
many micro-batches the activations in all its stages. No row counts the update.

A file ending in .csv is a plan as torch.distributed.pipelining writes and reads it;
--csv writes one.`,
		Args: func(_ *cobra.Command, args []string) error {
			if n := len(args); n == 3 || n == 1 && strings.HasSuffix(args[0], ".csv") {
				return nil
			}
			return usageError{fmt.Errorf("timeline wants a schedule, a number of stages and one of micro-batches, or a file ending in .csv, not %q", args)}
		},
	}
	c.Flags().Float64SliceVar(&q.Times.Forward, "forward", []float64{1}, "time of a forward pass")
	c.Flags().Float64SliceVar(&q.Times.Inputs, "inputs", []float64{1}, "time of the gradient of a stage's inputs")
	c.Flags().Float64SliceVar(&q.Times.Weights, "weights", []float64{1}, "time of the gradient of a stage's weights")
	c.Flags().Float64Var(&q.Times.Move, "move", 0, "time from one device to the next")
	c.Flags().Float64Var(&q.Times.Hidden, "hidden", 0, "share of a forward pass that hides behind the backward pass it overlaps")
	c.Flags().StringVar(&csv, "csv", "", "file for the plan, as torch.distributed.pipelining reads it")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document: every cell with its start and end")
	c.RunE = func(_ *cobra.Command, args []string) (err error) {
		if q.File = args[0]; len(args) == 3 {
			q.Schedule, q.File = args[0], ""
			for i, n := range []*int{&q.Stages, &q.Micros} {
				if *n, err = strconv.Atoi(args[1+i]); err != nil {
					return usageError{fmt.Errorf("%q is no number of stages or micro-batches", args[1+i])}
				}
			}
		}
		t, err := ask.AnswerTimeline(q)
		if err != nil {
			return usageError{err}
		}
		if csv != "" {
			var b bytes.Buffer
			if err := cmp.Or(t.Plan.WriteCSV(&b), os.WriteFile(csv, b.Bytes(), 0o644)); err != nil {
				return err
			}
		}
		if asJSON {
			return json.NewEncoder(out).Encode(t)
		}
		return t.Write(out, "box", width(out))
	}
	return c
}
