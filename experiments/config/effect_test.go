package config

import (
	"testing"
)

// A record tells what it was asked to record, and any target.
func TestTells(t *testing.T) {
	t.Parallel()
	for _, k := range Keys() {
		if k.Effect() != Observed {
			continue
		}
		right, _ := samples(k)
		more := Default()
		if err := more.Set(k.Name, right); err != nil {
			t.Fatal(err)
		}
		if !more.Tells(Default()) || !more.Tells(more) {
			t.Errorf("%s=%s hides something", k.Name, right)
		}
		if got, want := Default().Tells(more), k.Name == "target" || k.Name == "metric"; got != want {
			t.Errorf("without %s=%s it is told: %v", k.Name, right, got)
		}
	}
	three, six := Default(), Default()
	three.EvalEvery, six.EvalEvery = 3, 6
	if !three.Tells(six) || six.Tells(three) {
		t.Error("evaluations every 3 updates have those every 6 in them, and not the other way round")
	}
}
