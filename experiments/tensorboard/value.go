package tensorboard

import (
	"math"
	"time"
)

// Value is something to show under a tag. Tags with a slash are grouped by what
// stands before it.
type Value struct {
	tag    string
	append func([]byte) []byte // fields of Summary.Value behind the tag
}

// Scalar is one number, kept as a float32.
func Scalar(tag string, v float64) Value {
	return Value{tag, func(b []byte) []byte { return appendScalar(b, float32(v)) }}
}

// Text is Markdown.
func Text(tag, markdown string) Value {
	return Value{tag, func(b []byte) []byte { return appendText(b, markdown) }}
}

// Counts is a histogram of whole numbers: counts[v] values were v. Buckets are
// v − ½ … v + ½.
func Counts(tag string, counts []uint64) Value {
	h := histogram{min: math.Inf(1), max: math.Inf(-1)}
	h.limits, h.buckets = append(h.limits, -0.5), append(h.buckets, 0)
	for v, n := range counts {
		x, c := float64(v), float64(n)
		h.limits, h.buckets = append(h.limits, x+0.5), append(h.buckets, c)
		if n == 0 {
			continue
		}
		h.min, h.max = min(h.min, x), max(h.max, x)
		h.num += c
		h.sum += float64(c * x)
		h.squares += float64(c * x * x)
	}
	if h.num == 0 {
		h.min, h.max = 0, 0
	}
	return Value{tag, func(b []byte) []byte { return appendHistogram(b, h) }}
}

// histogram is a HistogramProto: buckets[i] values lie in limits[i−1] … limits[i].
type histogram struct {
	min, max, num, sum, squares float64
	limits, buckets             []float64
}

// Outcome is how a run ended.
type Outcome int

// Outcomes, with the numbers of the format.
const (
	Success Outcome = 1
	Failure Outcome = 2
)

// Begin names the hyperparameters of a run and groups it with others, such as
// its repeats. Values are float64, bool or string; anything else is left out.
func Begin(group string, params map[string]any, at time.Time) Value {
	return Value{"_hparams_/session_start_info", func(b []byte) []byte { return appendBegin(b, group, params, at) }}
}

// End says how the run that Begin opened came out.
func End(o Outcome, at time.Time) Value {
	return Value{"_hparams_/session_end_info", func(b []byte) []byte { return appendEnd(b, o, at) }}
}
