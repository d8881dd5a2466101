package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

var (
	mae      = sgd.Metric{Name: "mae", Unit: "mm", LessIsBetter: true}
	margin   = sgd.Metric{Name: "margin"}
	measured = []sgd.Metric{sgd.Accuracy, sgd.Loss, mae, margin}
)

// goalOf is what a configuration's target is for a model with accuracy, loss and two metrics
// of its own.
func goalOf(t *testing.T, c Config) record.Goal {
	t.Helper()
	g, err := c.Goal(measured)
	if err != nil {
		t.Error(err)
	}
	return g
}

// A target may be of any metric; what is kept of it can be read again, as a configuration and
// as a recipe.
func TestTargetOfAMetric(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]record.Goal{
		"loss<=1.9": {Metric: sgd.Loss, Value: 1.9}, "mae<=0.3": {Metric: mae, Value: 0.3}, "margin>=-1.5": {Metric: margin, Value: -1.5},
		"0.9": {Metric: sgd.Accuracy, Value: 0.9}, "accuracy>=0.9": {Metric: sgd.Accuracy, Value: 0.9},
		"0.95best": {Metric: sgd.Accuracy, OfBest: true, Value: 0.95}, "accuracy>=0.9best": {Metric: sgd.Accuracy, OfBest: true, Value: 0.9},
		"loss<=1.05best": {Metric: sgd.Loss, OfBest: true, Value: 1.05}, "mae<=2best": {Metric: mae, OfBest: true, Value: 2},
	} {
		c := mustRuns(t, "steps: 1\n", "target="+text)[0].Config
		if got := goalOf(t, c); got != want || want.Metric != sgd.Accuracy && c.Metric != want.Metric.Name {
			t.Errorf("%s: %+v, metric=%s", text, got, c.Metric)
		}
		if again, _, err := ParseConfig(c.YAML()); err != nil || again != c {
			t.Errorf("%s read as a configuration: %v, %v", text, again.Target, err)
		}
		if again := mustRuns(t, string(c.YAML()))[0].Config; again != c {
			t.Errorf("%s read as a recipe: %v", text, again.Target)
		}
		// It identifies a run only where it ends it.
		if c.Hash() != mustRuns(t, "steps: 1\n")[0].Config.Hash() {
			t.Errorf("%s makes another run", text)
		}
	}
	for keys, want := range map[string]record.Goal{
		"metric: loss": {Metric: sgd.Loss}, "metric: mae": {Metric: mae}, "metric: mae\ntarget: 0.3": {Metric: mae, Value: 0.3}, "seed: 1": {Metric: sgd.Accuracy},
	} {
		if got := goalOf(t, mustRuns(t, "steps: 1\n"+keys+"\n")[0].Config); got != want {
			t.Errorf("%s: %v", keys, got)
		}
	}
	for over, want := range map[string]record.Goal{"target=accuracy>=0.9": {Metric: sgd.Accuracy, Value: 0.9}, "target=0.8": {Metric: sgd.Accuracy, Value: 0.8}} {
		if got := goalOf(t, mustRuns(t, "steps: 1\ntarget: loss<=3\n", over)[0].Config); got != want {
			t.Errorf("%s over a loss: %v", over, got)
		}
	}
	if got := goalOf(t, mustRuns(t, "steps: 1\ntarget: 0.95best\n", "target=0.9")[0].Config); got != (record.Goal{Metric: sgd.Accuracy, Value: 0.9}) {
		t.Errorf("a value over a share: %v", got)
	}
}

// What is no target is refused where it is given, and what no evaluation of the model can
// reach where the model is known, with the metrics that it has.
func TestTargetsThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"loss<=x": "is no target", "loss<=NaN": "is no target", "best": "is no target", "loss>=1": "of loss less is better; want loss<=x", "accuracy<=0.9": "of accuracy more is better; want accuracy>=x",
		"accuracy>=2": "no accuracy is above 1", "accuracy>=-1": "0 or more", "accuracy>=1.5best": "at most 1best", "loss<=0.9best": "at least 1best", "-1best": "above 0",
		"loss<=0": "0 stands for no target", "a b>=1": "letters, digits", "first>=1": "needs no name", ">=1": "letters, digits", "mae<=1e999": "is no target",
	} {
		c := Default()
		if err := c.Set("target", text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `key "target"`) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	for keys, want := range map[string]string{
		"metric: loss\ntarget: 0.95best": "at least 1best", "metric: accuracy\ntarget: 1.5": "no accuracy is above 1",
	} {
		if _, err := parse(t, "steps: 1\n"+keys+"\n").Runs(nil, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", keys, err, want)
		}
	}
	for keys, want := range map[string]string{
		"target=1.5": "no accuracy is above 1", "target=1.5best": "at most 1best", "target=maee<=1": `the model has no metric "maee"; it has accuracy, loss, mae, margin`,
		"metric=top5": `key "metric": the model has no metric "top5"; it has accuracy, loss, mae, margin`, "target=mae>=1": "of mae less is better; want mae<=x", "target=margin<=1": "of margin more is better; want margin>=x",
	} {
		c := mustRuns(t, "steps: 1\n", keys)[0].Config
		if _, err := c.Goal(measured); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", keys, err, want)
		}
	}
	// The configuration that names another metric than its target is no run.
	c := Default()
	if err := errors.Join(c.Set("target", "loss<=1"), c.Set("metric", "accuracy")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), "leave one of the two out") {
		t.Error(err)
	}
	// Where the model is made, its metrics are known.
	if _, err := mustRuns(t, "steps: 1\n", "target=mae<=1")[0].Build(Places{}, nil); err == nil || !strings.Contains(err.Error(), `no metric "mae"; it has accuracy, loss`) {
		t.Error(err)
	}
	c = Default()
	if err := errors.Join(c.Set("target", "0.95best"), c.Set("until", "target"), c.Set("eval_every", "5")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), "no run knows where it ends") {
		t.Errorf("until=target: %v", err)
	}
}

// A share of the best is worse than it, whatever the direction and the sign.
func TestSharesAreWorse(t *testing.T) {
	t.Parallel()
	for _, g := range []record.Goal{{Metric: margin, OfBest: true, Value: 0.9}, {Metric: mae, OfBest: true, Value: 1.1}} {
		for _, best := range []float64{2, -2} {
			if r := g.Resolve(best); r.OfBest || !g.Metric.Better(best, r.Value) || r.Reached(record.Eval{}) || !r.Reached(record.Eval{Values: record.Values{g.Metric.Name: best}}) {
				t.Errorf("%v of %v: %v", g, best, r)
			}
		}
	}
}
