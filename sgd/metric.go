package sgd

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gradlab/gradlab/internal/portable"
)

// Share is the unit of metrics between 0 and 1, such as the accuracy.
const Share = "share"

// Metric is a quantity that a model measures on the test set: the mean over samples of a
// value per sample, or a function of it (see [Metric.Of]). Name has letters, digits, _ and -. Unit is that of values: [Share] for
// parts of 1, the unit's symbol (ms) for others, "" for plain numbers. LessIsBetter is true
// of losses and errors.
type Metric struct {
	Name         string `json:"name"`
	Unit         string `json:"unit,omitempty"`
	LessIsBetter bool   `json:"less_is_better,omitempty"`
}

// Metrics whose columns have their plain names. Models may have others beside them.
var (
	Accuracy = Metric{Name: "accuracy", Unit: Share}    // share of predictions that are right
	Top5     = Metric{Name: "top5", Unit: Share}        // share of labels among the five classes that score highest
	Loss     = Metric{Name: "loss", LessIsBetter: true} // the mean loss, in nats

	// Perplexity is e to the power of the mean loss. What a score has of it is the loss.
	Perplexity = Metric{Name: "perplexity", LessIsBetter: true}
	// BitsPerByte is the loss in bits, over the bytes of text that a token stands for.
	BitsPerByte = Metric{Name: "bits_per_byte", LessIsBetter: true}

	known = [...]Metric{Accuracy, Top5, Loss, Perplexity, BitsPerByte}             // in the order of columns
	heads = map[string]string{Top5.Name: "top-5", BitsPerByte.Name: "bits a byte"} // where they are not the name
	docs  = map[string]string{
		Top5.Name:        "share of labels among the five best classes; sets of more than ten classes",
		Perplexity.Name:  "e to the power of the loss of a token, on the test set; of texts",
		BitsPerByte.Name: "bits of loss for a byte of the test set; of texts",
	}
	nameable = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) // metrics are part of fields, tags and paths
)

// KnownMetrics lists the metrics whose columns have their plain names.
func KnownMetrics() []Metric { return slices.Clone(known[:]) }

// FindMetric returns the metric of a name from a list.
func FindMetric(all []Metric, name string) (Metric, bool) {
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return Metric{}, false
}

// WithFirst is a list with the metric of a name in front, if it is there.
func WithFirst(all []Metric, name string) []Metric {
	out := slices.Clone(all)
	if i := slices.IndexFunc(out, func(m Metric) bool { return m.Name == name }); i > 0 {
		m := out[i]
		out = slices.Insert(slices.Delete(out, i, i+1), 0, m)
	}
	return out
}

// own begins the columns of metrics that only some models have, which keeps them apart from
// all other columns; best those of best values, and step ends those of their updates.
const (
	own  = "metric."
	best = "best_"
	step = "_step"
)

// Column is the metric's name in records, results and tables: accuracy, or metric.mae.
func (m Metric) Column() string {
	if _, ok := FindMetric(known[:], m.Name); ok {
		return m.Name
	}
	return own + m.Name
}

// BestColumn is the column of the metric's best value, and StepColumn that of the update that
// it was at.
func (m Metric) BestColumn() string { return best + m.Column() }

// StepColumn is the column of the update that the best value was at.
func (m Metric) StepColumn() string { return m.BestColumn() + step }

// MetricOf returns the metric of a column: one that is known, or only the name of another.
func MetricOf(column string) (Metric, bool) {
	if name, ok := strings.CutPrefix(column, own); ok {
		return Metric{Name: name}, nameable.MatchString(name)
	}
	return FindMetric(known[:], column)
}

// MetricOfBest returns the metric of a column of best values, as MetricOf does.
func MetricOfBest(column string) (Metric, bool) {
	rest, ok := strings.CutPrefix(column, best)
	if !ok || strings.HasSuffix(rest, step) {
		return Metric{}, false
	}
	return MetricOf(rest)
}

// Head is the metric's name in texts: accuracy, top-5.
func (m Metric) Head() string {
	if head, ok := heads[m.Name]; ok {
		return head
	}
	return m.Name
}

// Short is the metric's name where there is little room: acc. The loss is told from that of
// training.
func (m Metric) Short() string {
	switch m {
	case Accuracy:
		return "acc"
	case Loss:
		return "test loss"
	}
	return m.Head()
}

// Doc describes the metric in lists of columns.
func (m Metric) Doc() string {
	if doc, ok := docs[m.Name]; ok {
		return doc
	}
	if _, ok := FindMetric(known[:], m.Name); !ok {
		return "a metric of the model's own"
	}
	return "on the test set"
}

// IsUsual reports whether most models have the metric. Tables leave it out where runs are
// compared by another.
func (m Metric) IsUsual() bool { return m == Accuracy || m == Loss }

// Best words the best of several values: "best accuracy", "least loss".
func (m Metric) Best() string {
	if m.LessIsBetter {
		return "least " + m.Head()
	}
	return "best " + m.Head()
}

// Winner words what has the best value: "most accurate", "least loss".
func (m Metric) Winner() string {
	if m == Accuracy {
		return "most accurate"
	}
	return m.Best()
}

// Of is the metric's value where the mean over samples is known: e to its power of the
// perplexity, and itself of all others.
func (m Metric) Of(mean float64) float64 {
	if m == Perplexity {
		return portable.Exp(mean)
	}
	return mean
}

// LossFactor is what a mean loss in nats a token is multiplied by to have the mean of the
// metric, for samples of a form. It is 0 for metrics that are no function of the loss.
func (m Metric) LossFactor(of Sample) float64 {
	switch {
	case m == Loss || m == Perplexity:
		return 1
	case m == BitsPerByte && of.Bytes > 0:
		return 1 / (math.Ln2 * of.Bytes)
	}
	return 0
}

// Better reports whether value a is better than b. NaN is worse than all.
func (m Metric) Better(a, b float64) bool {
	if m.LessIsBetter {
		return a < b || math.IsNaN(b) && !math.IsNaN(a)
	}
	return a > b || math.IsNaN(b) && !math.IsNaN(a)
}

// Most is the largest value that there can be: 1 of shares, else infinity.
func (m Metric) Most() float64 {
	if m.Unit == Share {
		return 1
	}
	return math.Inf(1)
}

// CheckMetrics refuses lists in which a metric cannot be recorded: a name with other
// characters, twice, or of a known metric that is measured in another way.
func CheckMetrics(all []Metric) error {
	const most = 64
	if len(all) > most {
		return fmt.Errorf("%d metrics; want at most %d", len(all), most)
	}
	for i, m := range all {
		if !nameable.MatchString(m.Name) || m.Name == First || strings.HasSuffix(m.Name, step) {
			return fmt.Errorf("metric %d is called %q; want up to 64 letters, digits, _ and -, not %q, and no %s at the end", i, m.Name, First, step)
		}
		if of, ok := FindMetric(known[:], m.Name); ok && of != m {
			return fmt.Errorf("metric %s has unit %q and less_is_better %v; that name has %q and %v, so give yours another", m.Name, m.Unit, m.LessIsBetter, of.Unit, of.LessIsBetter)
		}
		if _, twice := FindMetric(all[:i], m.Name); twice {
			return fmt.Errorf("metric %s is there twice", m.Name)
		}
		if len(m.Unit) > 16 || strings.ContainsFunc(m.Unit, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("metric %s has unit %q; want at most 16 bytes that can be printed", m.Name, m.Unit)
		}
	}
	return nil
}

// First stands for the first metric of a model, whatever its name.
const First = "first"

// Score is the outcome of an evaluation: N samples, and a sum over them for each metric of
// the model, in the order of its Metrics. Squares, which a model need not give, are sums of the
// squares of a sample's values.
type Score struct {
	N       int
	Sums    []float64
	Squares []float64
}

// Add accumulates o, a score of the same model.
func (s *Score) Add(o Score) {
	if s.Sums == nil {
		s.Sums = make([]float64, len(o.Sums))
		s.Squares = make([]float64, len(o.Squares))
	}
	s.Squares = s.Squares[:min(len(s.Squares), len(o.Squares))]
	for i := range s.Squares {
		s.Squares[i] += o.Squares[i]
	}
	for i, sum := range o.Sums {
		if i < len(s.Sums) {
			s.Sums[i] += sum
		}
	}
	s.N += o.N
}

// Mean is the mean of the metric with an index in the model's Metrics; NaN for an empty score.
func (s Score) Mean(i int) float64 { return s.Sums[i] / float64(s.N) }

// Error is the standard error of that mean, as if samples were drawn independently: how far
// means of other test sets of this size lie. It is 0 where squares are not known.
func (s Score) Error(i int) float64 {
	if i >= len(s.Squares) || s.N < 2 {
		return 0
	}
	n, mean := float64(s.N), s.Mean(i)
	return math.Sqrt(max(0, s.Squares[i]/n-float64(mean*mean)) / (n - 1))
}
