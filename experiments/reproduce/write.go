package reproduce

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/gradlab/gradlab/experiments/figure"
)

// Write prints the report for people: what is compared with what, a line a
// point, and the tables. style is box, markdown or csv.
func (r *Report) Write(w io.Writer, style string) error {
	fmt.Fprintf(w, "%s: %s\nsource: %s\n", r.Study, r.Title, r.Source)
	for _, s := range r.Stated {
		fmt.Fprintf(w, "stated: %s\n", s)
	}
	var rows [][]string
	for _, p := range r.Points {
		verdict := "holds"
		switch {
		case p.Kind == Hypothesis:
			verdict = map[bool]string{true: "yes", false: "no"}[p.OK]
		case !p.Kind.Judged():
			verdict = "–"
		case !p.OK:
			verdict = "MISSED"
		}
		off := ""
		if p.Unit != "true" && p.Published != 0 {
			off = fmt.Sprintf("%+.1f %%", 100*(p.Ours/p.Published-1))
		}
		rows = append(rows, []string{p.Name, p.word(p.Published), p.word(p.Ours), off, p.allowed(), string(p.Kind), verdict})
	}
	header := []string{"point", "published", "ours", "error", "allowed", "kind", "verdict"}
	if err := figure.Table(w, style, header, rows, []bool{false, true, true, true, true, false, false}); err != nil {
		return err
	}
	for _, t := range r.Tables {
		fmt.Fprintln(w, t.Title)
		right := make([]bool, len(t.Header))
		for i := range right {
			right[i] = i > 0
		}
		if err := figure.Table(w, style, t.Header, t.Rows, right); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	for _, f := range r.Figures {
		fmt.Fprintln(w, "wrote", f)
	}
	return nil
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
	}
	low, high := (p.Published-p.Least)/math.Abs(p.Published), (p.Most-p.Published)/math.Abs(p.Published)
	if math.Abs(low-high) < 1e-9 {
		return fmt.Sprintf("± %.3g %%", 100*high)
	}
	return fmt.Sprintf("%.4g to %.4g", p.Least, p.Most)
}
