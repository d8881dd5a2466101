package experiments

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// computed is key model for a program of testdata/external, which wants a Python module.
func computed(t *testing.T, module, name string) string {
	t.Helper()
	return `model=external(command="` + program.Python(t, module) + " " + name + `")`
}

// A model that a program computes is trained alike by goroutines, by processes and on the
// virtual cluster, asynchronously too, and a run that was stopped goes on with the same bits.
func TestProgramsTrain(t *testing.T) {
	t.Parallel()
	for _, c := range patience.Few(1, []struct{ module, program string }{{"numpy", "numpy_softmax.py"}, {"torch", "torch_mlp.py"}}) {
		t.Run(c.module, func(t *testing.T) {
			model := computed(t, c.module, "testdata/external/"+c.program)
			keys := []string{model, "data=digits", "workers=3", "epochs=0", "steps=60", "batch=16", "mode=reduce", "codec=feedback(topk(keep=0.1))", "schedule=constant(lr=0.1)"}
			vir := mustExecute(t, append(keys, "net=sim")...)
			loc := mustExecute(t, append(keys, "net=local", "overlap=buckets")...)
			if vir.ParamsSHA256 != loc.ParamsSHA256 || vir.Values["accuracy"] < 0.8 || vir.VirtualSeconds == 0 {
				t.Errorf("sim %s, accuracy %v, %v virtual seconds; local %s", vir.ParamsSHA256, vir.Values["accuracy"], vir.VirtualSeconds, loc.ParamsSHA256)
			}
			if patience.Long { // starts processes: ranks, each with a program of its own
				run := mustRuns(t, small, append(keys, "net=grpc")...)[0]
				r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: t.TempDir(), Join: Itself(os.Getenv, config.Places{})})
				if err != nil || r.ParamsSHA256 != vir.ParamsSHA256 || r.WireBytes == 0 {
					t.Errorf("grpc: %+v, %v; sim %s", r, err, vir.ParamsSHA256)
				}
			}
			late := append(keys, "mode=server", "servers=2", "policy=asp", "codec=qsgd(bits=4)", "checkpoint_every=20", "schedule=constant(lr=0.02)")
			whole := mustExecute(t, late...)
			run, opt := mustRuns(t, small, late...)[0], Options{Recipe: "test", Out: t.TempDir(), Resume: true, Stopping: stopAfter(45)}
			if _, err := Execute(t.Context(), run, opt); !errors.Is(err, ErrStopped) {
				t.Fatal(err)
			}
			opt.Stopping = nil
			again, err := Execute(t.Context(), run, opt)
			if err != nil || again.ParamsSHA256 != whole.ParamsSHA256 || again.VirtualSeconds != whole.VirtualSeconds || again.Values["accuracy"] != whole.Values["accuracy"] {
				t.Errorf("stopped and resumed: %+v, %v; in one go %+v", again, err, whole)
			}
		})
	}
}

// Parameters and gradients that are exchanged as bfloat16 train alike on every net.
func TestProgramsTrainInBFloat16(t *testing.T) {
	t.Parallel()
	keys := []string{strings.TrimSuffix(computed(t, "numpy", "testdata/external/numpy_softmax.py"), ")") + ",values=bf16)", "data=digits", "workers=2",
		"epochs=0", "steps=60", "batch=16", "mode=reduce", "schedule=constant(lr=0.1)"}
	vir, loc := mustExecute(t, append(keys, "net=sim")...), mustExecute(t, append(keys, "net=local")...)
	if vir.ParamsSHA256 != loc.ParamsSHA256 || vir.Values["accuracy"] < 0.8 {
		t.Errorf("sim %s, accuracy %v; local %s", vir.ParamsSHA256, vir.Values["accuracy"], loc.ParamsSHA256)
	}
	if full := mustExecute(t, append(keys, strings.TrimSuffix(keys[0], ",values=bf16)")+")")...); full.ParamsSHA256 == vir.ParamsSHA256 {
		t.Error("float32 gives the same bits")
	}
}

// The program that measures what the engine costs does so, here on a narrow network.
func TestOverheadIsMeasured(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("measures PyTorch")
	}
	model := strings.Replace(computed(t, "torch", "-m gradlab.overhead"), "overhead", "overhead --width=2 --side=32 --steps=2", 1)
	r := mustExecute(t, model, "data=external(train=100,test=4)", "workers=1", "batch=2", "net=local", "mode=reduce", "epochs=0", "steps=9", "eval_every=100", "schedule=constant(lr=0.01)")
	m := r.Values
	if len(m) != 10 || m["bare_least_ms"] <= 0 || m["bare_least_ms"] > m["bare_median_ms"] || m["run_least_ms"] > m["run_median_ms"] {
		t.Errorf("%v", m)
	}
	if got, want := m["clock_median_percent"], 100*(m["run_median_ms"]/m["bare_median_ms"]-1); math.Abs(got-want) > 1e-6*math.Abs(want) {
		t.Errorf("%v percent, want %v", got, want)
	}
}

// A program may have its own samples: the engine says which are due.
func TestProgramsOwnSamples(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	model := computed(t, "torch", "testdata/external/torch_own.py")
	keys := []string{model, "data=external(train=500,test=100)", "workers=2", "epochs=4", "steps=0", "batch=10", "mode=reduce", "schedule=constant(lr=0.5)"}
	r := mustExecute(t, keys...)
	if r.Values["accuracy"] < 0.95 || r.Steps != 100 {
		t.Errorf("accuracy %v after %d steps", r.Values["accuracy"], r.Steps)
	}
	// What it measures besides is kept with every evaluation.
	first, last := r.Evals[0].Values, r.Evals[len(r.Evals)-1].Values
	if r.Values["mae"] != last["mae"] || last["mae"] <= 0 || last["mae"] > 0.2 || len(r.Evals) > 1 && last["mae"] >= first["mae"] {
		t.Errorf("mae %v, evaluations %v to %v", r.Values, first, last)
	}
	if _, events := eventsOf(t, r.Folder); containing(events, "test/mae") != len(r.Evals) {
		t.Errorf("%d events test/mae of %d evaluations", containing(events, "test/mae"), len(r.Evals))
	}
	_, err := execute(t, t.TempDir(), false, append(keys, "data=external(train=501,test=100)")...)
	if err == nil || !strings.Contains(err.Error(), "training sample 500 of 500") {
		t.Error(err)
	}
}

// Outputs need not be scores of classes: where targets are sequences the loss compares runs,
// and of several outputs the first ones are scores.
func TestProgramsOutputs(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	model := strings.TrimSuffix(computed(t, "torch", "testdata/external/torch_tokens.py"), `")`)
	for outputs, counted := range map[string]bool{"tokens": false, "pair": true} {
		r := mustExecute(t, model+" "+outputs+`")`, "data=external(train=70,test=70)", "workers=2", "epochs=10", "steps=0", "batch=5", "mode=reduce", "schedule=constant(lr=5)")
		accuracy, there := r.Values["accuracy"]
		if there != counted || counted && accuracy != 1 || r.Values["loss"] > 0.5 {
			t.Errorf("%s: %v", outputs, r.Values)
		}
	}
}

// A program that ends during a run ends the run, with what it printed last.
func TestProgramsThatFail(t *testing.T) {
	t.Parallel()
	model := strings.TrimSuffix(computed(t, "numpy", "testdata/external/numpy_softmax.py"), `")`) + ` fail")`
	for _, net := range []string{"net=sim", "net=local"} {
		_, err := execute(t, t.TempDir(), false, model, "data=digits", "workers=2", "epochs=0", "steps=60", "batch=16", "mode=reduce", net)
		if err == nil || !strings.Contains(err.Error(), "exit status 9") || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: %v", net, err)
		}
	}
	// A gradient with NaN, too: also where spans leave while the pass goes on.
	spoilt := strings.TrimSuffix(computed(t, "numpy", "../sgd/external/testdata/bad.py"), `")`) + ` nan")`
	for _, overlap := range []string{"overlap=none", "overlap=buckets"} {
		_, err := execute(t, t.TempDir(), false, spoilt, "data=digits", "workers=2", "epochs=0", "steps=60", "batch=16", "mode=reduce", "net=local", overlap)
		if err == nil || !strings.Contains(err.Error(), "has NaN or Inf") || !strings.Contains(err.Error(), "last output:\nthe last words") {
			t.Errorf("%s: %v", overlap, err)
		}
	}
	for model, want := range map[string]string{
		`model=external(command="/nowhere --x")`:   "does not start",
		`model=external(command="sh -c 'exit 4'")`: "exit status 4",
	} {
		if _, err := execute(t, t.TempDir(), false, model, "data=digits"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", model, err, want)
		}
	}
}

// A program that hangs does not hold up a run that is asked to stop: it has its time for an
// answer, and the run goes on from the last checkpoint.
func TestProgramsThatHangAreNotWaitedFor(t *testing.T) { // it hurries all programs: nothing beside it
	for _, net := range []string{"net=local", "net=sim"} {
		dir := t.TempDir()
		hangs := filepath.Join(dir, "hangs")
		run := mustRuns(t, small, computed(t, "numpy", "testdata/external/numpy_softmax.py hangs "+hangs), "data=digits", "workers=2", "epochs=0", "steps=20", "batch=16", "mode=reduce", "checkpoint_every=4", net)[0]
		r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, hurry: time.Millisecond, Stopping: func() bool {
			_, err := os.Stat(hangs)
			return err == nil
		}})
		if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "--resume goes on from step 12") {
			t.Errorf("%s: %+v, %v", net, r, err)
		}
	}
}
