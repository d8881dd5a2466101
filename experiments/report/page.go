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
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent":   percent,
	"seconds":   progress.Seconds,
	"bytes":     bytesText,
	"duration":  func(s stats.Summary) string { return words(s, progress.Seconds) },
	"volume":    func(s stats.Summary) string { return words(s, bytesText) },
	"toSeconds": func(r stats.Reach) string { return reached(r, progress.Seconds) },
	"toBytes":   func(r stats.Reach) string { return reached(r, bytesText) },
	"toUpdates": func(r stats.Reach) string {
		return reached(r, func(x float64) string { return fmt.Sprintf("%.0f", x) })
	},
	"times": times,
	"lies": func(c *Config) string {
		return orNever(c.Low) + " to " + orNever(c.High)
	},
	"speedUp": func(x float64) string {
		if math.IsNaN(x) {
			return ""
		}
		return store.SpeedUp(x) + "×"
	},
	"sortable": sortable,
	"toFloat":  func(n uint64) float64 { return float64(n) },
	"chance":   chance,
	"figures":  func(s Section) (Drawing, error) { return Draw(s.Panels...) },
	"settings": settings,
	"slug":     func(t *Task, s Section) string { return t.Slug() + "-" + s.Name },
	"most":     func() int { return most },
	"folds":    folds,
	"bare":     func(r *store.Run) string { return runLabel(r) },
}).Parse(pageText))

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

// settings are the keys of a run that differ from their defaults.
func settings(r *store.Run) (out []string) {
	def := config.Default()
	for _, k := range config.Keys() {
		if v := r.Config.Get(k.Name); v != def.Get(k.Name) {
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

// Points words how far a configuration's best score is from the best of the others, with
// simultaneous limits; of accuracies in points of a percent.
func (t *Task) Points(d Behind) string {
	if d.N == 0 || math.IsNaN(d.Mean) {
		return ""
	}
	unit, word, sign := 100.0, "%+.2f", 1.0
	if t.Target.Loss {
		unit, word, sign = 1, "%+.3g", -1
	}
	text := func(x float64) string {
		return strings.Replace(fmt.Sprintf(word, sign*unit*x), "-", "−", 1)
	}
	number := func(x float64) string {
		if x == 0 {
			return "0"
		}
		return text(x)
	}
	if math.IsNaN(d.Low) || d.Low == d.High {
		return number(d.Mean)
	}
	low, high := d.Low, d.High
	if t.Target.Loss {
		low, high = high, low
	}
	return fmt.Sprintf("%s (%s to %s)", number(d.Mean), number(low), number(high))
}

// Share words a score with its interval.
func (t *Task) Share(s stats.Summary) string { return words(s, t.score) }
