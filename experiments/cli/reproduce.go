package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/reproduce"
)

func (e *env) reproduceCommand() *cobra.Command {
	var quick, asJSON, mutants bool
	var out, format, without string
	c := &cobra.Command{
		Use:   "reproduce NAME…",
		Short: "Published tables and laws, computed again point by point",
		Long: `Reproduce runs studies (gradlab list studies) and prints, for each point, what is
published, what comes out here, the error, what is allowed, and whether the point
is a claim or was fitted. The exit code is 1 if a claim fails. A name is that of
a study, of a group (` + reproduce.GroupNames() + `), or all.

  gradlab reproduce codec-error
  gradlab reproduce asynchrony --quick
  gradlab reproduce all --quick

A study names the mechanisms it is about (gradlab help NAME). Without one of them a
judged point that held must be missed. --without takes one out; --mutants takes out
each in turn, says red or green, and ends with 1 where one stays green:

  gradlab reproduce dc-asgd --without compensation
  gradlab reproduce codecs --quick --mutants

Every report is also kept as JSON and Markdown, with its figures, below --out.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("reproduce wants the name of a study, or a group of them (%s), or all; see gradlab list studies", reproduce.GroupNames())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := style(format)
			if err != nil {
				return err
			}
			if asJSON {
				as = "json"
			}
			if args, err = reproduce.Named(args...); err != nil {
				return usageError{err}
			}
			// Virtual clusters are many small objects that live for a run: on
			// collecting them less often goyal-time takes a tenth less.
			collector.bound(200)
			if without != "" && (mutants || len(args) != 1) {
				return usageError{errors.New("--without takes a mechanism out of one study: reproduce NAME --without MECHANISM; --mutants takes out every one of every study")}
			}
			if without != "" {
				if err := reproduce.Has(args[0], without); err != nil {
					return usageError{err}
				}
			}
			display := progress.New(e.screen, progress.Every(30*time.Second)) // of hours
			defer display.Close()
			st := &studying{e: e, display: display, out: out, style: as, quick: quick, without: without, of: len(args), began: map[string]time.Time{}, kept: map[string]*reproduce.Report{}}
			if mutants {
				return st.mutants(cmd.Context(), args)
			}
			reproduce.All(cmd.Context(), args, st.equip, st.done)
			if left := len(args) - st.heard; left > 0 {
				st.failed = append(st.failed, fmt.Errorf("%d of %d studies were not begun; the same command goes on: %w", left, len(args), experiments.ErrStopped))
			}
			var reports []*reproduce.Report
			for _, name := range args {
				if r := st.kept[name]; r != nil {
					reports = append(reports, r)
				}
			}
			display.Close()
			if len(reports) > 1 && st.style != "json" {
				if err := reproduce.Summary(e.out, st.style, reports); err != nil {
					return err
				}
			}
			if st.style == "json" {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				if err := enc.Encode(reports); err != nil {
					return err
				}
			}
			if c, ok := reproduce.Covered(reports); !ok && c.Studies > 1 {
				st.failed = append(st.failed, fmt.Errorf("coverage: %v", c))
			}
			return errors.Join(st.failed...)
		},
	}
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "the same claims at a smaller size")
	f.BoolVar(&asJSON, "json", false, "print one JSON document with every figure")
	f.StringVar(&format, "format", "table", "table, markdown or json")
	f.StringVar(&out, "out", "runs", "base folder of reports")
	f.StringVar(&without, "without", "", "a mechanism of the study that is taken out (gradlab help NAME has them)")
	f.BoolVar(&mutants, "mutants", false, "take out each mechanism in turn; ends with 1 where the study does not notice")
	return c
}

// studying is a command that carries out studies.
type studying struct {
	e          *env
	display    *progress.Display
	out, style string
	without    string // the mechanism that is taken out; "" is none
	quick      bool
	of, heard  int // studies, and those that have ended
	began      map[string]time.Time
	kept       map[string]*reproduce.Report
	failed     []error
}

// equip gives a study that begins what it works with.
func (s *studying) equip(name string) *reproduce.Lab {
	s.began[name] = time.Now()
	suffix := ""
	if s.without != "" {
		suffix = reproduce.Suffix(s.without)
	}
	return s.lab(name, suffix)
}

// lab is what a study works with whose reports lie in the folder of its name and suffix.
func (s *studying) lab(name, suffix string) *reproduce.Lab {
	return &reproduce.Lab{
		Quick: s.quick, Without: s.without, Out: filepath.Join(s.out, name+suffix),
		Logf: func(format string, args ...any) { s.display.Logf("%s: %s", name, fmt.Sprintf(format, args...)) },
		Runs: experiments.Options{Recipe: name, Out: s.out, Places: s.e.places(), Args: s.e.args, Display: s.display, Join: experiments.Itself(os.Getenv, s.e.places()), Stopping: s.e.stop.Load},
	}
}

// done keeps and prints what a study came to.
func (s *studying) done(name string, r *reproduce.Report, err error) {
	s.heard++
	if err == nil {
		r.Seconds = time.Since(s.began[name]).Seconds()
		s.kept[name] = r
		s.display.Logf("%s: %d points, %d missed, after %s; %d of %d studies done", name, len(r.Points), r.Failed(), progress.Seconds(r.Seconds), s.heard, s.of)
		suffix := ""
		if r.Without != "" {
			suffix = reproduce.Suffix(r.Without)
		}
		err = keepReport(filepath.Join(s.out, name+suffix), r)
	}
	if err == nil && s.style != "json" {
		err = r.Write(s.e.out, s.style)
	}
	if err == nil && r.Failed() > 0 {
		err = fmt.Errorf("study %s: %d of %d points do not hold", name, r.Failed(), len(r.Points))
	}
	if errors.Is(err, experiments.ErrStopped) { // of a run, whatever it says of itself
		err = fmt.Errorf("study %s: %w", name, experiments.Stopped("the same command goes on"))
	}
	if err != nil {
		s.failed = append(s.failed, err)
	}
}

// mutants carries studies out as they are and without each of their mechanisms.
func (s *studying) mutants(ctx context.Context, names []string) error {
	var trials []reproduce.Trial
	green := 0
	for _, name := range names {
		lab := func(suffix string) *reproduce.Lab { return s.lab(name, suffix) }
		_, err := reproduce.Mutants(ctx, name, nil, lab, func(t reproduce.Trial) {
			trials = append(trials, t)
			word := "red"
			if !t.Red() {
				word = "GREEN"
				green++
			}
			s.display.Logf("%s without %s: %s", t.Study, t.Mechanism, word)
			if t.Report != nil {
				if err := keepReport(filepath.Join(s.out, name+reproduce.Suffix(t.Mechanism)), t.Report); err != nil {
					s.failed = append(s.failed, err)
				}
			}
		})
		if err != nil {
			s.failed = append(s.failed, err)
		}
		if errors.Is(err, experiments.ErrStopped) || ctx.Err() != nil {
			break
		}
	}
	s.display.Close()
	if s.style == "json" {
		enc := json.NewEncoder(s.e.out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(trials); err != nil {
			return err
		}
	} else if err := reproduce.WriteTrials(s.e.out, s.style, trials); err != nil {
		return err
	}
	if green > 0 {
		s.failed = append(s.failed, fmt.Errorf("%d of %d mechanisms could be taken out unnoticed", green, len(trials)))
	}
	return errors.Join(s.failed...)
}

// keepReport leaves a report as JSON, and as a section of a page.
func keepReport(dir string, r *reproduce.Report) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := r.Write(&page, "markdown"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.md"), page.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.json"), append(b, '\n'), 0o644)
}
