package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// extend makes a run longer.
func extend(t testing.TB, folder string, changes ...string) (*Result, error) {
	t.Helper()
	return Extend(context.Background(), folder, changes, Options{})
}

// A finished run that is extended is the longer run: every figure, on the virtual
// cluster, of every mode that has a checkpoint to go on from.
func TestExtended(t *testing.T) {
	patience.Virtual(t)
	for i, way := range everyWay(t) {
		if !patience.Long && i%8 != 0 {
			continue
		}
		for _, every := range []int{0, 12} {
			over := append(append([]string{}, way...), fmt.Sprint("checkpoint_every=", every), "device.law=lognormal(sigma=0.3)", "epochs=0", "eval_every=7", "target=0.2")
			short, long := "steps=40", "steps=75"
			if strings.Contains(way[0], "sandblaster") {
				short, long = "steps=15", "steps=24" // a step is a pass over the data
			}
			t.Run(strings.Join(over[:len(way)+1], " "), func(t *testing.T) {
				t.Parallel()
				job, err := mustRuns(t, small, append(over, long)...)[0].Build(config.Places{}, nil)
				if err != nil {
					t.Skip(err)
				}
				first := mustExecute(t, append(over, short)...)
				before, err := os.ReadFile(filepath.Join(first.Folder, "result.json"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := extend(t, first.Folder, long)
				rule := job.StopRule(true, 0)
				if every == 0 && (rule != train.StopAtStep || !job.ClockGoesOn(rule) || strings.HasPrefix(way[0], "mode=rudra")) {
					if bad := new(config.Error); !errors.As(err, &bad) || !strings.Contains(err.Error(), "checkpoint_every=") {
						t.Errorf("without a checkpoint: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Folder == first.Folder || got.Extends == nil || got.Extends.Folder != first.Folder || got.Extends.Step >= first.Steps {
					t.Errorf("in %s, extending %+v", got.Folder, got.Extends)
				}
				if after, err := os.ReadFile(filepath.Join(first.Folder, "result.json")); err != nil || string(after) != string(before) {
					t.Errorf("the first run's result has changed: %v", err)
				}
				clock := job.ClockGoesOn(rule) || every > 0
				want, is := row(t, mustExecute(t, append(over, long)...), clock), row(t, got, clock)
				for k := range want {
					if a, b := fmt.Sprint(is[k]), fmt.Sprint(want[k]); a != b {
						t.Errorf("%s of the extended run: %s, of the long one: %s", k, a, b)
					}
				}
				again, err := extend(t, first.Folder, long)
				if err != nil || again.Folder != got.Folder || again.ParamsSHA256 != got.ParamsSHA256 {
					t.Errorf("extended again: %+v, %v", again, err)
				}
			})
		}
	}
}

// A schedule that depends on the planned steps makes no run that could be extended,
// whatever it is called; the others do.
func TestExtendRefuses(t *testing.T) {
	t.Parallel()
	plain := mustExecute(t)
	for _, c := range []struct {
		over, changes []string
		want          string
	}{
		{[]string{"schedule=cosine(lr=0.1)"}, []string{"steps=24"}, "make it anew"},
		{[]string{"schedule=warmup(poly(lr=0.1),steps=3)"}, []string{"steps=24"}, "make it anew"},
		{[]string{"schedule=warmup(step(lr=0.1),steps=3)"}, []string{"steps=24"}, ""},
		{[]string{"schedule=linear(constant)"}, []string{"epochs=0.5"}, ""},
		{nil, []string{"steps=12"}, "made 12 steps already"},
		{nil, []string{"steps=20,30"}, "makes 2 runs"},
		{nil, []string{"codec=sign"}, "want steps, epochs, until, target"},
		{nil, []string{"step=20"}, "want steps"},
		{[]string{"policy=asp"}, []string{"steps=24"}, "checkpoint_every=6"},
		{[]string{"target=0.01", "until=target"}, []string{"steps=24"}, "reached target=0.01 at step 4"},
		{[]string{"target=0.01", "until=target"}, []string{"steps=24", "until=end"}, ""},
		{[]string{"target=0.01", "until=target"}, []string{"until=end"}, ""},
	} {
		dir := t.TempDir()
		r, err := execute(t, dir, false, c.over...)
		if err != nil {
			t.Fatal(c.over, err)
		}
		longer, err := extend(t, r.Folder, c.changes...)
		bad := new(config.Error)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v, %v: %v", c.over, c.changes, err)
		case c.want == "" && longer.Steps < 12:
			t.Errorf("%v, %v: %d steps", c.over, c.changes, longer.Steps)
		case c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, %v: %v; want %q", c.over, c.changes, err, c.want)
		}
		if c.want != "" { // nothing is left behind
			if found, _ := filepath.Glob(filepath.Join(dir, "test", "*")); len(found) != 1 {
				t.Errorf("%v, %v left %v", c.over, c.changes, found)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(plain.Folder, "status.json"), []byte(`{"schema":1,"state":"stopped"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := extend(t, plain.Folder, "steps=24"); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a stopped run: %v", err)
	}
}

// An extension that is stopped goes on when it is asked for again.
func TestExtensionOverAStop(t *testing.T) {
	t.Parallel()
	first := mustExecute(t, "mode=reduce", "codec=feedback(topk(keep=0.1))")
	polls := 0
	_, err := Extend(t.Context(), first.Folder, []string{"steps=60"}, Options{Stopping: func() bool { polls++; return polls > 20 }})
	if !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	got, err := extend(t, first.Folder, "steps=60")
	want := mustExecute(t, "mode=reduce", "codec=feedback(topk(keep=0.1))", "steps=60")
	if err != nil || got.ParamsSHA256 != want.ParamsSHA256 || len(got.Evals) != len(want.Evals) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// Runs on real clocks whose workers are in step keep a last checkpoint too, and go on
// to the same bits.
func TestExtendedOnARealClock(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{{"mode=server"}, {"mode=reduce"}, {"mode=localsgd(h=3)"}, {"mode=reduce", "overlap=buckets"}} {
		over := append(way, "net=local")
		got, err := extend(t, mustExecute(t, over...).Folder, "steps=20")
		want := mustExecute(t, append(over, "steps=20")...)
		if err != nil || got.ParamsSHA256 != want.ParamsSHA256 || got.BytesUp != want.BytesUp {
			t.Errorf("%v: %+v, %v; want %+v", over, got, err, want)
		}
	}
}
