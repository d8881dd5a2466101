package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
)

func (e *env) reportCommand() *cobra.Command {
	var out, figures string
	c := &cobra.Command{
		Use:   "report RUNS…",
		Short: "Runs compared on one page, the answer first",
		Long: `Report compares the runs at or below folders on one self-contained page: which
configurations are on the Pareto front of accuracy, time and bytes, then curves,
staleness, traffic, where the time goes, scaling, and every run with its
configuration.

  gradlab report runs/quickstart
  gradlab report runs/quickstart -o report.html --figures paper/figures

Runs of one configuration that differ in their seed are repeats: they give means
and intervals.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("report wants folders of runs, such as runs/quickstart")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			runs, err := store.Find(args...)
			if len(runs) == 0 {
				if err == nil {
					err = fmt.Errorf("no runs below %v; gradlab run quickstart makes some", args)
				}
				return usageError{err}
			}
			if err != nil {
				fmt.Fprintln(e.err, "gradlab: left out:", err)
			}
			r, err := report.New(runs)
			if err != nil {
				return err
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
			for _, t := range r.Tasks {
				for _, s := range t.Answer() {
					fmt.Fprintln(e.out, s)
				}
			}
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
	c.Flags().StringVar(&figures, "figures", "", "folder for every figure as SVG, PNG and PDF")
	return c
}
