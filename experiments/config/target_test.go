package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train/record"
)

// A target may be a loss; what is kept of it can be read again, as a configuration and as
// a recipe.
func TestTargetOfALoss(t *testing.T) {
	t.Parallel()
	c := mustRuns(t, "steps: 1\n", "target=loss<=1.9")[0].Config
	if c.Goal() != (record.Goal{Loss: true, Value: 1.9}) || c.Metric != "loss" {
		t.Errorf("%v, metric=%s", c.Goal(), c.Metric)
	}
	if again, _, err := ParseConfig(c.YAML()); err != nil || again != c {
		t.Errorf("read as a configuration: %v, %v", again.Goal(), err)
	}
	if again := mustRuns(t, string(c.YAML()))[0].Config; again != c {
		t.Errorf("read as a recipe: %v", again.Goal())
	}
	if c := mustRuns(t, "steps: 1\nmetric: loss\n")[0].Config; c.Goal() != (record.Goal{Loss: true}) {
		t.Errorf("metric=loss: %v", c.Goal())
	}
	if c := mustRuns(t, "steps: 1\ntarget: loss<=3\n", "target=accuracy>=0.9")[0].Config; c.Goal() != (record.Goal{Value: 0.9}) {
		t.Errorf("accuracy over loss: %v", c.Goal())
	}
	for text, want := range map[string]string{
		"1.5": "target=loss<=1.5", "loss<=-1": "0 or more", "loss<=x": "is no target", "loss>=1": "is no target", "accuracy>=2": "no accuracy is above 1", "loss<=NaN": "is no target",
	} {
		c := Default()
		if err := c.Set("target", text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `key "target"`) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	// It identifies a run only where it ends it.
	with := c
	with.Target = 1.5
	if with.Hash() != c.Hash() {
		t.Error("another target is another run")
	}
}

// A target may be a share of the best that the runs compared reach, of accuracy and of loss;
// a plain one takes its place. No run ends at it.
func TestTargetOfTheBest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]record.Goal{
		"0.95best": {OfBest: true, Value: 0.95}, "accuracy>=0.9best": {OfBest: true, Value: 0.9}, "loss<=1.05best": {Loss: true, OfBest: true, Value: 1.05},
	} {
		c := mustRuns(t, "steps: 1\n", "target="+text)[0].Config
		if c.Goal() != want {
			t.Errorf("%s: %v", text, c.Goal())
		}
		if again, _, err := ParseConfig(c.YAML()); err != nil || again != c {
			t.Errorf("%s read as a configuration: %v, %v", text, again.Goal(), err)
		}
		if again := mustRuns(t, string(c.YAML()))[0].Config; again != c {
			t.Errorf("%s read as a recipe: %v", text, again.Goal())
		}
		if c.Hash() != mustRuns(t, "steps: 1\n")[0].Config.Hash() {
			t.Errorf("%s makes another run", text)
		}
	}
	if c := mustRuns(t, "steps: 1\ntarget: 0.95best\n", "target=0.9")[0].Config; c.Goal() != (record.Goal{Value: 0.9}) {
		t.Errorf("a value over a share: %v", c.Goal())
	}
	if _, err := parse(t, "steps: 1\nmetric: loss\ntarget: 0.95best\n").Runs(nil, false); err == nil || !strings.Contains(err.Error(), "at least 1best") {
		t.Errorf("less than the least loss: %v", err)
	}
	for text, want := range map[string]string{"1.5best": "at most 1best", "loss<=0.9best": "at least 1best", "best": "is no target", "-1best": "0 or more"} {
		c := Default()
		if err := c.Set("target", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	c := Default()
	if err := errors.Join(c.Set("target", "0.95best"), c.Set("until", "target"), c.Set("eval_every", "5")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), "no run knows where it ends") {
		t.Errorf("until=target: %v", err)
	}
}
