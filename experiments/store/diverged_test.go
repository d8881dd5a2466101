package store

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// The loss of a run that diverged (nonfinite=zero) is in no mean, which is said.
func TestDivergedRunsAreInNoMean(t *testing.T) {
	t.Parallel()
	runs := seeded(1, 2, 3)
	for i, loss := range []float64{0.25, math.MaxFloat64, 0.75} {
		runs[i].Result = &experiments.Result{TrainLoss: loss, Values: record.Values{"loss": loss, "surprise": loss},
			Metrics: []sgd.Metric{sgd.Loss, {Name: "surprise", LessIsBetter: true}}}
		runs[i].Metrics = runs[i].Result.Metrics
	}
	loss := fieldNamed(t, "loss")
	if g := Groups(runs); len(g) != 1 || g[0].Summary(loss).Mean != 0.5 || g[0].Summary(fieldNamed(t, "metric.surprise")).Mean != 0.5 {
		t.Errorf("%+v", g[0].Summary(loss))
	}
	if v := loss.Value(runs[1]); v != nil {
		t.Errorf("exported as %v", v)
	}
	c, err := Compare(Groups(runs), 0, loss, record.Goal{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.Write(&text, "box", 0); err != nil || !strings.Contains(text.String(), "2 of 3") || !strings.Contains(text.String(), "seed=2 has diverged: its loss is not finite, and in no mean") {
		t.Errorf("%v: %s", err, &text)
	}
	f, err := Export(runs, "runs")
	if err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := f.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "e+308") {
		t.Error("1.8e308 is exported")
	}
	if _, err := csv.NewReader(&text).ReadAll(); err != nil {
		t.Error(err)
	}
}
