package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// Values are means over the test set, by the names of metrics.
type Values map[string]float64

// NewValues takes what a model measured: the means of a score, as they can be recorded. It
// is an error when the score has not one sum per metric.
func NewValues(metrics []sgd.Metric, score sgd.Score) (Values, error) {
	if score.N == 0 {
		return nil, nil
	}
	if len(score.Sums) != len(metrics) {
		return nil, fmt.Errorf("the model's score has %d sums for its %d metrics; want one per metric, in their order", len(score.Sums), len(metrics))
	}
	v := Values{}
	for i, m := range metrics {
		x := Recordable(m.Of(score.Mean(i)))
		if Diverged(x) && !m.LessIsBetter { // as no number, it is the worst there is
			x = -math.MaxFloat64
		}
		v[m.Name] = x
	}
	return v, nil
}

// Of is the value of a metric; known is false where it was not measured, or is not finite.
func (v Values) Of(m sgd.Metric) (x float64, known bool) {
	x, known = v[m.Name]
	return x, known && !Diverged(x)
}

// MarshalJSON writes an object with a key per metric, its column.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make(map[string]float64, len(v))
	for name, x := range v {
		out[sgd.Metric{Name: name}.Column()] = x
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object that has columns of metrics beside other keys.
func (v *Values) UnmarshalJSON(object []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return err
	}
	*v = nil
	for column, text := range all {
		m, ok := sgd.MetricOf(column)
		if !ok {
			continue
		}
		var x float64
		if err := json.Unmarshal(text, &x); err != nil {
			return fmt.Errorf("key %q: %w", column, err)
		}
		if *v == nil {
			*v = Values{}
		}
		(*v)[m.Name] = x
	}
	return nil
}

// Known lists the metrics of values whose units and directions are known everywhere.
func (v Values) Known() (out []sgd.Metric) {
	for _, m := range sgd.KnownMetrics() {
		if _, ok := v[m.Name]; ok {
			out = append(out, m)
		}
	}
	return out
}

// Best is the best finite value of a metric, and the update it was at.
type Best struct {
	Value float64
	Step  int
}

// Bests are best values by the names of metrics. In JSON they are two columns each.
type Bests map[string]Best

// BestOf finds the best values of evaluations, the first of equals.
func BestOf(metrics []sgd.Metric, evals []Eval) Bests {
	out := Bests{}
	for _, m := range metrics {
		for _, e := range evals {
			x, known := e.Values.Of(m)
			if best, ok := out[m.Name]; known && (!ok || m.Better(x, best.Value)) {
				out[m.Name] = Best{x, e.Step}
			}
		}
	}
	return out
}

// MarshalJSON writes the columns of best values.
func (b Bests) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for name, x := range b {
		m := sgd.Metric{Name: name}
		out[m.BestColumn()], out[m.StepColumn()] = x.Value, x.Step
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object that has columns of best values beside other keys.
func (b *Bests) UnmarshalJSON(object []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return err
	}
	*b = Bests{}
	for column, text := range all {
		m, ok := sgd.MetricOfBest(column)
		at, both := all[m.StepColumn()]
		if !ok || !both {
			continue
		}
		var x Best
		if err := errors.Join(json.Unmarshal(text, &x.Value), json.Unmarshal(at, &x.Step)); err != nil {
			return fmt.Errorf("key %q: %w", column, err)
		}
		(*b)[m.Name] = x
	}
	return nil
}

// JoinJSON writes two objects as one, the keys of the second behind those of the first.
func JoinJSON(first, second any) ([]byte, error) {
	a, err := json.Marshal(first)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(second)
	if err != nil {
		return nil, err
	}
	switch {
	case len(b) <= len("{}"):
		return a, nil
	case len(a) <= len("{}"):
		return b, nil
	}
	return bytes.Join([][]byte{a[:len(a)-1], b[1:]}, []byte{','}), nil
}

// Recordable is a number as JSON can hold it: NaN and Inf become the largest number.
func Recordable(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.MaxFloat64
	}
	return x
}

// Diverged reports whether a recorded number stands for NaN or Inf: it is no number to
// average.
func Diverged(x float64) bool { return math.Abs(x) >= math.MaxFloat64 }
