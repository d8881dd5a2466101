package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent":  percent,
	"seconds":  progress.Seconds,
	"bytes":    bytesText,
	"sortable": sortable,
	"toFloat":  func(n uint64) float64 { return float64(n) },
	"figure":   drawing,
	"settings": settings,
	"slug":     func(t *Task, s Section) string { return t.Slug() + "-" + s.Name },
	"most":     func() int { return most },
	"folds":    folds,
	"bare":     func(r *store.Run) string { return runLabel(r) },
	"last":     last,
}).Parse(pageText))

// valued is a metric's value, and how it is shown.
type valued struct {
	Value float64
	Text  string
}

// last is the value of a metric at the end of a run; nil: it is not known.
func last(r *store.Run, m sgd.Metric) *valued {
	if x, known := r.Result.Values.Of(m); known && !r.Config.Weightless {
		return &valued{x, scored(m, x)}
	}
	return nil
}

// Metrics lists what the runs' models measured.
func (r *Report) Metrics() []sgd.Metric { return store.MetricsOf(r.Runs) }

// drawnSection is a section as the page shows it.
type drawnSection struct {
	ID string
	Section
	Drawing
}

func drawing(id string, s Section) (drawnSection, error) {
	d, err := Draw(s.Panels...)
	return drawnSection{id, s, d}, err
}

// Entry is a line of the list of contents.
type Entry struct{ ID, Title string }

// Contents lists the parts of the page: of several tasks the tasks, of one its figures.
func (r *Report) Contents() (out []Entry) {
	for i, v := range r.Views {
		out = append(out, Entry{r.Slug(i), v.Title})
	}
	for i, w := range r.Winners {
		out = append(out, Entry{fmt.Sprint("winners-", i), "Soonest by " + w.Rows + " and " + w.Columns})
	}
	for _, t := range r.Tasks {
		if len(r.Tasks) > 1 {
			name := t.Facet
			if name == "" {
				name = t.Title()
			}
			out = append(out, Entry{t.Slug(), name})
			continue
		}
		for i, s := range t.Sections {
			out = append(out, Entry{t.Slug() + "-" + s.Name, s.Title})
			if i == 0 {
				out = append(out, Entry{t.Slug() + "-sentences", "In sentences"}, Entry{t.Slug() + "-table", "Configurations"})
			}
		}
	}
	if len(r.Notes) > 0 {
		out = append(out, Entry{"caveats", "Caveats"})
	}
	return append(out, Entry{"runs", "Every run"})
}

// Common is what all tasks have in common beside the title: their clock.
func (r *Report) Common() string {
	clock := ""
	for _, t := range r.Tasks {
		if clock != "" && t.Clock() != clock {
			return ""
		}
		clock = t.Clock()
	}
	return clock
}

// Footnotes say once what stands behind intervals, tests and marks of the page.
func (r *Report) Footnotes() (out []string) {
	var learned, lying, measured bool
	for _, t := range r.Tasks {
		learned, lying, measured = learned || t.Learned(), lying || t.Lying(), measured || t.Measured()
	}
	if len(r.Tasks) == 0 {
		return nil
	}
	s := "± is half a 95 % interval of the mean (Student's t over seeds); of two seeds there is the range. Times and bytes to a target are medians over seeds. "
	if learned {
		s += "Behind the best is the difference from the best of the others with simultaneous 95 % limits. "
	}
	out = append(out, s+"Who is better is told "+tested+", and p is corrected for all pairs. On the Pareto front no other is better in one thing that is asked for and not worse in the others; configurations that seeds and evaluations cannot tell apart are equal.")
	if lying {
		out = append(out, "Times are predicted, by draws from what is known of transports, devices and codec rates: the median, and in the column 90 % where nine cases of ten lie, over seeds and draws.")
	}
	if measured {
		out = append(out, "Speed-up is over one worker alone.")
	}
	return append(out, "Compression is the bytes that codec raw, and bf16, would have sent over those that were.")
}

// HTML writes the page.
func (r *Report) HTML(w io.Writer) error {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		*Report
		Style  template.CSS
		Script template.JS
		Policy string
		Where  []string
	}{r, template.CSS(styleText), template.JS(scriptText), Policy(), r.where()})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// Policy is the page's Content-Security-Policy: it loads nothing and runs its one script.
func Policy() string {
	sum := sha256.Sum256([]byte(scriptText))
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Drawing is a figure as a page shows it: the panels, which the page's layout
// places, and the legend.
type Drawing struct {
	Panels []Part `json:"panels"`
	Legend []Part `json:"legend"`
}

// Part is a piece of a drawing.
type Part struct {
	Name string        `json:"name"`
	SVG  template.HTML `json:"svg"` // texts in it were escaped by the figure's writer
}

// Draw draws panels for a page with [Style].
func Draw(panels ...figure.Figure) (Drawing, error) {
	ps, legend, err := figure.Parts(panels...)
	if err != nil {
		return Drawing{}, err
	}
	parts := func(in []figure.Part) []Part {
		out := []Part{}
		for _, p := range in {
			out = append(out, Part{p.Name, template.HTML(p.SVG)})
		}
		return out
	}
	return Drawing{parts(ps), parts(legend)}, nil
}

// Style is the style sheet of the page, for light, dark and print.
func Style() string { return styleText }

// settings are the keys that a recipe of the run has to name.
func settings(r *store.Run) (out []string) {
	for _, k := range config.Keys() {
		if r.Config.Said(k.Name) {
			out = append(out, k.Name+": "+r.Config.Show(k.Name))
		}
	}
	for k, v := range r.Foreign {
		out = append(out, k+": "+v+" (unknown here)")
	}
	slices.Sort(out)
	return out
}

func runLabel(r *store.Run) string {
	if r.Name == "" {
		return r.Recipe
	}
	return r.Name
}

// where are the machines and versions the runs were made with.
func (r *Report) where() (out []string) {
	for _, run := range r.Runs {
		word := func(key string) string {
			if v := run.Env[key]; v != nil {
				return fmt.Sprint(v)
			}
			return "?"
		}
		s := fmt.Sprintf("%s, %s cores, %s/%s, %s", strings.TrimSpace(word("cpu")), word("cores"), word("os"), word("arch"), word("go"))
		if rev := word("vcs.revision"); rev != "?" {
			s += ", gradlab " + rev[:min(12, len(rev))]
			if word("vcs.modified") == "true" {
				s += " with changes"
			}
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// times words a ratio, nothing if it is not known.
func times(s stats.Summary) string {
	if s.N == 0 {
		return ""
	}
	return field("compression").Format(s.Mean)
}

// sortable is a number as a table's cell is sorted by.
func sortable(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	if math.IsInf(x, 1) {
		return "Infinity" // as the page's script reads it
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// chance words a p-value.
func chance(p float64) string {
	switch {
	case math.IsNaN(p):
		return ""
	case p < 0.001:
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
