package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
)

func (e *env) reportCommand() *cobra.Command {
	var out, figures string
	var target, name string
	var draws int
	var asJSON bool
	c := &cobra.Command{
		Use:   "report FOLDER|ID|FILTER …",
		Short: "Runs compared on one page, the answer first",
		Long: `Report compares runs on one self-contained page: which configuration reaches the
target soonest and which are on the Pareto front of accuracy, time and bytes, then
curves, staleness, traffic, where the time goes, scaling, and every run with its
configuration.

  gradlab report runs/quickstart
  gradlab report runs/quickstart network.bandwidth=1Gbps 'codec!=sign' --target 0.97
  gradlab report runs/quickstart -o report.html --figures paper/figures

Which runs is said by folders, ids and filters (gradlab help filters). Runs of one
configuration that differ in their seed are repeats: they give means and intervals.
Only runs of one environment compete: each network has a front and a table of its own.

Virtual times become predicted times: those of draws from what is known of transports,
devices and codec rates (gradlab help whatif), the same draws for all that is compared.
So the answer says how probably each is first. Where the sizes of frames are not known
they are those of the virtual clock, which the answer says.

Over a numeric key that the runs were swept over, such as network.bandwidth, workers or a
codec's keep, a figure has a line for each configuration, and sentences say where the first
of them change places, with an interval over the same seeds and draws; only where both sides
of that are told. By two such keys a matrix says which is soonest.

Which is soonest, has the fewest bytes and is most accurate is printed as data by --json:
an object a facet; a probability is null where one seed and no draws tell none.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("report wants to be told which runs: folders such as runs/quickstart, ids or filters")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if draws < 0 {
				return usageError{fmt.Errorf("--draws=%d: want the number of draws, or 0 for no intervals", draws)}
			}
			runs, err := e.selected("runs", args)
			if err != nil {
				return err
			}
			goal, err := goalOf(target, runs)
			if err != nil {
				return err
			}
			r, err := report.New(runs, goal)
			if err != nil {
				return err
			}
			if name != "" {
				r.Title = name
			}
			if err := e.lie(cmd.Context(), r, draws); err != nil {
				return err
			}
			if asJSON {
				return e.summaries(r)
			}
			var page bytes.Buffer
			if err := r.HTML(&page); err != nil {
				return err
			}
			if dir := filepath.Dir(out); dir != "." {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			if err := os.WriteFile(out, page.Bytes(), 0o644); err != nil {
				return err
			}
			e.answers(r)
			fmt.Fprintln(e.out, "wrote", out)
			if figures == "" {
				return nil
			}
			files, err := r.Figures(figures)
			for _, f := range files {
				fmt.Fprintln(e.out, "wrote", f)
			}
			return err
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "report.html", "the page")
	c.Flags().IntVar(&draws, "draws", ask.Draws, "draws of uncertain parameters that times, intervals and probabilities rest on; 0: times of the virtual clock, as where there are more than 48 configurations")
	c.Flags().BoolVar(&asJSON, "json", false, "write no page: print a JSON object a facet, with target, seeds, answers, baseline, crossings")
	c.Flags().StringVar(&name, "name", "", "title of the page (default: what is computed, such as a model on a data set)")
	c.Flags().StringVar(&target, "target", "", "what to reach: a `value` of the runs' metric such as 0.95, NAME>=x or NAME<=x of another, such as loss<=1.9, or 0.95best, a share of the best (default: that of the runs)")
	c.Flags().StringVar(&figures, "figures", "", "folder for every figure as SVG, PNG and PDF")
	return c
}

// summaries prints a JSON object for each task.
func (e *env) summaries(r *report.Report) error {
	enc := json.NewEncoder(e.out)
	for _, t := range r.Tasks {
		if err := enc.Encode(t.Summary()); err != nil {
			return err
		}
	}
	return nil
}

// answers prints what runs say, in sentences.
func (e *env) answers(r *report.Report) {
	for _, t := range r.Tasks {
		if len(r.Tasks) > 1 {
			fmt.Fprintln(e.out, t.Title())
		}
		for _, s := range t.Answer() {
			fmt.Fprintln(e.out, s)
		}
	}
	for _, s := range r.Swept() {
		fmt.Fprintln(e.out, s)
	}
}

// lie says where virtual times lie on real clusters, for a few configurations.
func (e *env) lie(ctx context.Context, r *report.Report, draws int) error {
	if draws == 0 {
		return nil
	}
	const most = 48
	return r.Lie(most, func(run *store.Run) (*report.Draws, error) {
		in, each, err := ask.Lies(ctx, run.Folder, e.places(), draws)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // a run that cannot be replayed is shown all the same
			fmt.Fprintf(e.err, "note: %s: no interval: %s\n", run.ID, oneLine(err))
			return nil, nil
		case in == nil:
			return nil, nil
		}
		return &report.Draws{Seconds: each, From: in.From()}, nil
	})
}
