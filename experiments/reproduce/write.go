package reproduce

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// Write prints the report for people: what is compared with what, a line a
// point, and the tables. style is box, csv, or markdown, which makes a section of
// a page of it.
func (r *Report) Write(w io.Writer, style string) error {
	page := style == "markdown"
	say := func(plain, marked string, args ...any) {
		if page {
			plain = marked
		}
		fmt.Fprintf(w, plain, args...)
	}
	say("%s: %s\n", "## %s: %s\n\n", r.Study, r.heading())
	if missed, of := r.NotBorneOut(); len(missed) > 0 {
		say("not borne out, %d of %d: %s\n", "Not borne out, %d of %d: %s.\n\n", len(missed), of, strings.Join(missed, "; "))
	}
	say("source: %s\n", "Source: %s.\n\n", r.Source)
	for _, s := range r.Stated {
		say("stated: %s\n", "- %s\n", s)
	}
	say("", "\n")
	header := []string{"point", "published", "ours", "error", "allowed", "kind", "verdict"}
	points := figure.Table{Header: header, Rows: r.rows(), Right: []bool{false, true, true, true, true, false, false}}
	if err := points.Write(w, style, 0); err != nil {
		return err
	}
	say("", "\n")
	for _, t := range r.Tables {
		t.Right = figure.AllButFirst(len(t.Header))
		if err := t.Write(w, style, 0); err != nil {
			return err
		}
		say("", "\n")
	}
	if c, _ := Covered([]*Report{r}); c != nil {
		say("predicted: %v\n", "- Predicted: %v.\n", c)
	}
	for _, n := range r.Notes {
		say("note: %s\n", "- %s\n", n)
	}
	if page {
		_, err := fmt.Fprintln(w)
		return err
	}
	for _, f := range r.Figures {
		fmt.Fprintln(w, "wrote", f)
	}
	return nil
}

// heading is the first line: the title, what was taken out, and how much of what the
// source found is not found here.
func (r *Report) heading() string {
	out := r.Title
	if r.Without != "" {
		out += ", WITHOUT " + r.Without
	}
	if missed, of := r.NotBorneOut(); len(missed) > 0 {
		out += fmt.Sprintf(" (%d of %d hypotheses of the source are not borne out)", len(missed), of)
	}
	return out
}

// Summary prints a line a study: how many points are judged, and how many of them
// do not hold.
func Summary(w io.Writer, style string, reports []*Report) error {
	var rows [][]string
	judged, missed := 0, 0
	for _, r := range reports {
		n := 0
		for _, p := range r.Points {
			if p.Kind.Judged() {
				n++
			}
		}
		rows = append(rows, []string{r.Study, strconv.Itoa(len(r.Points)), strconv.Itoa(n), strconv.Itoa(r.Failed()), progress.Seconds(r.Seconds)})
		judged, missed = judged+n, missed+r.Failed()
	}
	t := figure.Table{Header: []string{"study", "points", "judged", "missed", "took"}, Rows: rows, Right: []bool{false, true, true, true, true}}
	if err := t.Write(w, style, 0); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%d studies: %d points judged, %d missed\n", len(reports), judged, missed); err != nil {
		return err
	}
	return writeCoverage(w, reports)
}

// rows is a line for each point.
func (r *Report) rows() (rows [][]string) {
	for _, p := range r.Points {
		off := ""
		if p.Unit != "true" && p.Published != 0 && !math.IsNaN(p.Published) {
			off = fmt.Sprintf("%+.1f %%", 100*(p.Ours/p.Published-1))
		}
		published := p.word(p.Published)
		if math.IsNaN(p.Published) {
			published = ""
		}
		rows = append(rows, []string{p.Name, published, p.word(p.Ours), off, p.allowed(), string(p.Kind), p.verdict()})
	}
	return rows
}

func (p Point) verdict() string {
	switch {
	case p.Kind == Hypothesis:
		return map[bool]string{true: "yes", false: "no"}[p.OK]
	case p.Kind.Judged() && p.OK:
		return "holds"
	case p.Kind.Judged():
		return "MISSED"
	case p.OK:
		return "not judged"
	}
	return "missed, not judged"
}

// word is a value with its unit.
func (p Point) word(v float64) string {
	if p.Unit == "true" {
		return strconv.FormatBool(v == 1)
	}
	s := strconv.FormatFloat(v, 'g', 4, 64)
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		s = strconv.FormatFloat(v, 'f', 0, 64)
	}
	if p.Unit != "" {
		s += " " + p.Unit
	}
	return s
}

func (p Point) allowed() string {
	switch {
	case p.Unit == "true" || !p.Kind.Judged():
		return ""
	case p.Least == p.Most:
		return "exact"
	case p.Most == math.MaxFloat64:
		return fmt.Sprintf("%.4g or more", p.Least)
	}
	low, high := (p.Published-p.Least)/math.Abs(p.Published), (p.Most-p.Published)/math.Abs(p.Published)
	if math.Abs(low-high) < 1e-9 && high < 1 {
		return fmt.Sprintf("± %.3g %%", 100*high)
	}
	return fmt.Sprintf("%.4g to %.4g", p.Least, p.Most)
}

// WriteTrials prints a line for each mechanism: whether the study turned red without
// it, and by which points.
func WriteTrials(w io.Writer, style string, trials []Trial) error {
	t := figure.Table{Header: []string{"study", "without", "verdict", "points that turned", "first of them"}, Right: []bool{false, false, false, true, false}}
	green := 0
	for _, x := range trials {
		verdict, count, first := "red", fmt.Sprintf("%d of %d", len(x.Turned), x.Judged), ""
		switch {
		case x.Why != "":
			verdict, count, first = "NOT TRIED", "", x.Why
			green++
		case !x.Red():
			verdict = "GREEN"
			green++
		default:
			first = x.Turned[0]
		}
		t.Rows = append(t.Rows, []string{x.Study, x.Mechanism + ": " + x.Doc, verdict, count, first})
	}
	if err := t.Write(w, style, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d mechanisms taken out, %d not noticed\n", len(trials), green)
	return err
}
