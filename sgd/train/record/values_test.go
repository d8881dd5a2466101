package record_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// What an evaluation measured is written beside its other keys, and read back.
func TestEvaluationsAsJSON(t *testing.T) {
	t.Parallel()
	e := record.Eval{Step: 3, Seconds: 0.5, Last: true, Values: record.Values{"accuracy": 0, "loss": 1.5, "mae": -2}}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"accuracy":0,`, `"loss":1.5`, `"metric.mae":-2`, `"step":3,`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	var again record.Eval
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, e) {
		t.Errorf("%+v, %v", again, err)
	}
	var none record.Eval
	if b, err := json.Marshal(none); err != nil || json.Unmarshal(b, &none) != nil || !reflect.DeepEqual(none, record.Eval{}) {
		t.Errorf("without values %s, read as %+v, %v", b, none, err)
	}
	if err := json.Unmarshal([]byte(`{"step":1,"metric.mae":"x"}`), &again); err == nil || !strings.Contains(err.Error(), `"metric.mae"`) {
		t.Error(err)
	}
}

// A score has a sum for each metric, or is an error; what is not finite is the worst value,
// in either direction.
func TestValuesOfAScore(t *testing.T) {
	t.Parallel()
	metrics := []sgd.Metric{sgd.Accuracy, sgd.Loss}
	v, err := record.NewValues(metrics, sgd.Score{N: 2, Sums: []float64{math.Inf(1), math.NaN()}})
	if err != nil || v["accuracy"] != -math.MaxFloat64 || v["loss"] != math.MaxFloat64 {
		t.Errorf("%v, %v", v, err)
	}
	for _, m := range metrics {
		if _, known := v.Of(m); known {
			t.Errorf("%s is known", m.Name)
		}
	}
	if v, err := record.NewValues(metrics, sgd.Score{}); v != nil || err != nil {
		t.Errorf("an empty score: %v, %v", v, err)
	}
	if _, err := record.NewValues(metrics, sgd.Score{N: 1, Sums: []float64{1}}); err == nil || !strings.Contains(err.Error(), "1 sums for its 2 metrics") {
		t.Error(err)
	}
}

// Of evaluations the best is by the metric's direction, the first of equals.
func TestBestEvaluation(t *testing.T) {
	t.Parallel()
	evals := []record.Eval{{}, {Values: record.Values{"x": 2}}, {Values: record.Values{"x": 1}}, {Values: record.Values{"x": 2}}, {Values: record.Values{"x": 1}}}
	for less, want := range map[bool]int{false: 1, true: 2} {
		if got := (record.Goal{Metric: sgd.Metric{Name: "x", LessIsBetter: less}}).Best(evals); got != want {
			t.Errorf("less is better: %v: %d, want %d", less, got, want)
		}
	}
	if got := (record.Goal{Metric: sgd.Loss}).Best(evals); got != -1 {
		t.Errorf("without values %d", got)
	}
}
