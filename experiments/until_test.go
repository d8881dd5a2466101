package experiments

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// A run that ends at its target ends with the evaluation that the run that goes on
// has at its first reach: same step, instant, bytes, accuracy. It is done.
func TestUntilTarget(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for i, way := range everyWay(t) {
		if !patience.Long && i%8 != 0 {
			continue
		}
		for _, every := range []int{0, 12} {
			over := append(append([]string{}, way...), fmt.Sprint("checkpoint_every=", every), "device.law=lognormal(sigma=0.3)", "epochs=0", "eval_every=7")
			if strings.Contains(way[0], "sandblaster") {
				over = append(over, "steps=30") // a step is a pass over the data
			} else {
				over = append(over, "steps=80")
			}
			t.Run(strings.Join(over[:len(way)+1], " "), func(t *testing.T) {
				if _, err := mustRuns(t, small, over...)[0].Build(config.Places{}, nil); err != nil {
					t.Skip(err)
				}
				whole := mustExecute(t, over...)
				if len(whole.Evals) < 5 {
					t.Fatal(whole.Evals)
				}
				target := record.Goal{Metric: sgd.Accuracy, Value: math.Max(whole.Evals[0].Values["accuracy"], whole.Evals[3].Values["accuracy"])}
				over := append(over, fmt.Sprint("target=", target.Value))
				want, _ := FirstAt(whole.Evals, target)
				whole.Reach(target, whole.Evals)

				dir := t.TempDir()
				over = append(over, "until=target")
				got, err := execute(t, dir, false, over...)
				if err != nil {
					t.Fatal(err)
				}
				if got.Status != "done" || got.Ended != "target" {
					t.Errorf("it is %s, ended by %q", got.Status, got.Ended)
				}
				if got.Steps != want.Step || got.Samples != want.Samples || got.Values["accuracy"] != want.Values["accuracy"] || got.Values["loss"] != want.Values["loss"] || got.VirtualSeconds != want.Seconds ||
					got.BytesUp != want.BytesUp || got.BytesDown != want.BytesDown {
					t.Errorf("it ended with step %d, %d samples, accuracy %v, loss %v at %vs; the evaluation of the whole run is %+v",
						got.Steps, got.Samples, got.Values["accuracy"], got.Values["loss"], got.VirtualSeconds, want)
				}
				if got.TargetReached != whole.TargetReached || got.TargetSeconds != whole.TargetSeconds || got.TargetBytes != whole.TargetBytes {
					t.Errorf("target: %v, %vs, %d bytes; of the whole run: %v, %vs, %d bytes", got.TargetReached, got.TargetSeconds, got.TargetBytes,
						whole.TargetReached, whole.TargetSeconds, whole.TargetBytes)
				}
				for i, e := range got.Evals {
					if !reflect.DeepEqual(e, whole.Evals[i]) {
						t.Errorf("evaluation %d: %+v, of the whole run: %+v", i, e, whole.Evals[i])
					}
				}
				if last := got.Evals[len(got.Evals)-1]; last.Step != want.Step {
					t.Errorf("the last evaluation is at step %d, want %d", last.Step, want.Step)
				}
				again, err := execute(t, dir, true, over...)
				if err != nil || again.Folder != got.Folder || again.ParamsSHA256 != got.ParamsSHA256 || again.Status != "done" {
					t.Errorf("resumed: %+v, %v", again, err)
				}
				job, err := mustRuns(t, small, over...)[0].Build(config.Places{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if every == 0 && job.StopRule(true, 0) == train.StopAtStep { // in step: the parameters of so many steps
					short := mustExecute(t, append(append([]string{}, over...), "until=end", fmt.Sprint("steps=", want.Step))...)
					if short.ParamsSHA256 != got.ParamsSHA256 {
						t.Errorf("parameters %.8s, of a run of %d steps %.8s", got.ParamsSHA256, want.Step, short.ParamsSHA256)
					}
				}
			})
		}
	}
}

// Where it ends does not depend on how many threads there are, and every record is
// the same, in modes where nobody waits too.
func TestUntilTargetOnAnyProcessors(t *testing.T) {
	patience.Virtual(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, way := range ways {
		over := append(append([]string{}, way...), "eval_every=2", "target=0.12", "until=target", "epochs=0")
		var want *Result
		for _, n := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(n)
			got := mustExecute(t, over...)
			if want == nil {
				want = got
			}
			a, b := row(t, got, true), row(t, want, true)
			for k := range b {
				if fmt.Sprint(a[k]) != fmt.Sprint(b[k]) {
					t.Errorf("%s on %d: %s: %v, on one: %v", name, n, k, a[k], b[k])
				}
			}
		}
	}
}

// On real clocks it ends at the target too, in every kind of mode.
func TestUntilTargetOnRealClocks(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			r := mustExecute(t, append(append([]string{}, way...), "net=local", "eval_every=1", "steps=200", "target=0.01", "until=target", "epochs=0")...)
			first := r.Evals[len(r.Evals)-1]
			if r.Status != "done" || r.Ended != "target" || r.Steps >= 200 || r.Steps != first.Step || r.Values["accuracy"] != first.Values["accuracy"] || r.Values["accuracy"] < 0.01 {
				t.Errorf("%s, ended by %q, at step %d with %v; its last evaluation: %+v", r.Status, r.Ended, r.Steps, r.Values["accuracy"], first)
			}
		})
	}
}

// A run whose target is not reached makes all its steps, and is done.
func TestUntilATargetOutOfReach(t *testing.T) {
	t.Parallel()
	r, plain := mustExecute(t, "target=1", "until=target"), mustExecute(t, "target=1")
	if r.Status != "done" || r.Ended != "" || r.TargetReached || r.Steps != plain.Steps || r.ParamsSHA256 != plain.ParamsSHA256 {
		t.Errorf("%+v", r)
	}
}

// A stop by the user before the target is a stop, and resumed the run ends at the
// target all the same.
func TestUntilTargetOverAStop(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{{"mode=reduce"}, {"policy=asp", "device.law=lognormal(sigma=0.3)"}, {"mode=adpsgd", "checkpoint_every=5"}} {
		over := append(append([]string{}, way...), "steps=80", "eval_every=10", "target=0.2", "until=target", "epochs=0", "schedule=constant(lr=0.02)")
		want := mustExecute(t, over...)
		if want.Ended != "target" || want.Steps < 20 {
			t.Fatalf("%v: %d steps, accuracy %v", way, want.Steps, want.Values["accuracy"])
		}
		run, dir, polls := mustRuns(t, small, over...)[0], t.TempDir(), 0
		_, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Stopping: func() bool { polls++; return polls > 5 }})
		if !errors.Is(err, ErrStopped) {
			t.Fatalf("%v: %v", way, err)
		}
		got, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: true})
		if err != nil || got.ParamsSHA256 != want.ParamsSHA256 || got.Steps != want.Steps || got.Ended != "target" || got.VirtualSeconds != want.VirtualSeconds {
			t.Errorf("%v: %+v, %v; want %+v", way, got, err, want)
		}
	}
}

// Where a run ends is part of what it is: other targets are other runs then.
func TestUntilIsPartOfTheIdentity(t *testing.T) {
	t.Parallel()
	hash := func(over ...string) string { return mustRuns(t, small, over...)[0].Config.Hash() }
	if hash("target=0.5") != hash("target=0.6") || hash("target=0.5") != hash("until=end") {
		t.Error("a target that ends nothing is part of the identity")
	}
	if a := hash("target=0.5", "until=target"); a == hash("target=0.6", "until=target") || a == hash("target=0.5") || a == hash("target=0.5", "until=target", "eval_every=5") {
		t.Error("runs that end elsewhere are the same")
	}
}

// What cannot end a run is refused with what to type.
func TestUntilNeedsATarget(t *testing.T) {
	t.Parallel()
	for want, over := range map[string][]string{
		"add target=0.95":   {"until=target"},
		"add eval_every=50": {"until=target", "target=0.9", "eval_every=0"},
		"use until=end":     {"until=target", "target=0.9", "weightless=true", "timing=resnet50"},
		"end or target":     {"until=goal"},
	} {
		runs, err := mustParse(t, small).Runs(over, false)
		if err == nil {
			_, err = runs[0].Build(config.Places{}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", over, err)
		}
	}
}

// A run with until=plateau ends at the fifth evaluation in a row without a new best, with
// what the run that goes on has there; it is the same over a stop and with processes of its
// own clock. Extending it needs another end.
func TestUntilPlateau(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{{"mode=reduce"}, {"policy=asp", "device.law=lognormal(sigma=0.3)"}, {"mode=reduce", "metric=loss"}, {"mode=reduce", "net=local"}} {
		over := append(append([]string{}, way...), "steps=400", "eval_every=5", "epochs=0", "schedule=constant(lr=0.5)")
		whole := mustExecute(t, over...)
		goal := whole.Goal()
		at, best := -1, 0
		for i, e := range whole.Evals {
			if v, of := goal.Of(e), goal.Of(whole.Evals[best]); goal.Metric == sgd.Loss && v < of || goal.Metric == sgd.Accuracy && v > of {
				best = i
			}
			if i-best == 5 {
				at = i
				break
			}
		}
		if at < 0 || whole.Evals[at].Last {
			t.Fatalf("%v: no plateau in %d evaluations", way, len(whole.Evals))
		}
		want := whole.Evals[at]
		over = append(over, "until=plateau")
		run, dir, polls := mustRuns(t, small, over...)[0], t.TempDir(), 0
		if _, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Stopping: func() bool { polls++; return polls > 8 }}); !errors.Is(err, ErrStopped) {
			t.Fatalf("%v: %v", way, err)
		}
		got, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: true})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != "done" || got.Ended != "plateau" || got.Steps != want.Step || got.Values["accuracy"] != want.Values["accuracy"] || got.Values["loss"] != want.Values["loss"] {
			t.Errorf("%v: it is %s, ended by %q after %d steps with %v; want the evaluation of %d, %v", way, got.Status, got.Ended, got.Steps, got.Values["accuracy"], want.Step, want.Values["accuracy"])
		}
	}
	hash := func(over ...string) string { return mustRuns(t, small, over...)[0].Config.Hash() }
	if hash("until=plateau", "eval_every=5") == hash("eval_every=5") || hash("until=plateau", "eval_every=5") == hash("until=plateau", "eval_every=6") || hash("until=plateau", "eval_every=5") != hash("until=plateau", "eval_every=5", "target=0.5") {
		t.Error("what ends a run is not what it is known by")
	}
}
