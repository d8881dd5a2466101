package experiments

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/safetensors"
)

// startingWeights is a file of weights to begin with, in PyTorch's names: those after a step.
func startingWeights(t *testing.T, keys ...string) string {
	t.Helper()
	start := mustExecute(t, append(slices.Clone(keys), "steps=1")...)
	weights, err := Weights(start.Folder)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "start.safetensors")
	if err := os.WriteFile(file, weights, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tensors are the shapes of a run's weights, by name.
func tensors(t *testing.T, r *Result) map[string][]int {
	t.Helper()
	b, err := Weights(r.Folder)
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]int{}
	for _, x := range f.Tensors {
		out[x.Name] = x.Shape
	}
	return out
}

// agree checks that losses of a run there are those of one here, within a thousandth.
func agree(t *testing.T, ours, theirs *Result, evals int) {
	t.Helper()
	if len(ours.Evals) < evals || len(ours.Evals) != len(theirs.Evals) {
		t.Fatalf("%d and %d evaluations", len(ours.Evals), len(theirs.Evals))
	}
	close := func(what string, here, there float64) {
		if math.Abs(there-here) > 1e-3*here {
			t.Errorf("%s: loss %v there, %v here", what, there, here)
		}
	}
	for i, e := range ours.Evals {
		close("evaluated", e.Values["loss"], theirs.Evals[i].Values["loss"])
		t.Logf("step %d: loss %.6f there, %.6f here", e.Step, theirs.Evals[i].Values["loss"], e.Values["loss"])
	}
	close("in training", ours.Values["loss"], theirs.Values["loss"])
}

// ResNet-20 in PyTorch and ours, on the same weights and samples, agree over 100 steps.
func TestProgramIsOurResNet(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	if !patience.Long {
		t.Skip("takes seconds")
	}
	model := computed(t, "torch", "testdata/external/torch_resnet20.py")
	keys := []string{"data=synthetic(dim=3072,side=32,n=2000,test=64)", "workers=2", "epochs=0", "steps=100", "batch=8", "mode=reduce", "optimizer=momentum", "schedule=constant(lr=0.0003)", "eval_every=10", "threads=2"}
	file := startingWeights(t, append(keys, "model=resnet20")...)
	ours := mustExecute(t, append(keys, "model=resnet20", "init="+file)...)
	theirs := mustExecute(t, append(keys, model, "init="+file)...)
	agree(t, ours, theirs, 10)
}

// The networks that the Python package brings are ours of the same names and options: from
// the same weights they go the same way, also where samples are mixed and pictures grow.
func TestProgramsOfThePackageAreOurs(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	if !patience.Long {
		t.Skip("takes seconds")
	}
	command := strings.TrimSuffix(computed(t, "torch", "-m gradlab.resnet"), `")`)
	random := "data=synthetic(dim=3072,side=32,classes=7,n=500,test=16)"
	files := "data=pictures(path=" + filepath.Join(pictures(t, 40), "imagenet") + ",size=32,mixup=0.5,cutmix=1)"
	for model, keys := range map[string][]string{
		"resnet18(stem=cifar,smoothing=0.1,bn_momentum=1)": {files, "schedule=constant(lr=3e-4)", "augment=true", "side_schedule=stages(sides=[16,32],at=[0.25])"},
		"resnet50(init=goyal,zero_gamma=true)":             {random, "schedule=constant(lr=3e-4)"},
	} {
		t.Run(model, func(t *testing.T) {
			keys := append(keys, "workers=1", "epochs=0", "steps=4", "batch=8", "mode=reduce", "optimizer=momentum", "eval_every=2", "threads=2")
			file := startingWeights(t, append(keys, "model="+model)...)
			ours := mustExecute(t, append(keys, "model="+model, "init="+file)...)
			theirs := mustExecute(t, append(keys, command+" "+model+`")`, "init="+file)...)
			agree(t, ours, theirs, 2)
			if there, here := tensors(t, theirs), tensors(t, ours); !maps.EqualFunc(there, here, slices.Equal) {
				t.Errorf("weights of the run there are %v, here %v", there, here)
			}
		})
	}
}

// A program that takes neither mixed samples nor other sides, or a module of one side, ends a
// run that has them with what to do.
func TestProgramsSayWhatTheyTake(t *testing.T) {
	t.Parallel()
	files := "data=pictures(path=" + filepath.Join(pictures(t, 8), "imagenet") + ",size=8"
	for _, c := range patience.Few(2, []struct{ module, program, data, side, want string }{
		{"numpy", "testdata/external/prescribed.py model", files + ",mixup=1)", "fixed", `"mixed" in takes of its layout`},
		{"numpy", "testdata/external/prescribed.py model", files + ")", "stages(sides=[4,8],at=[1])", `"sides" in takes of its layout`},
		{"torch", "testdata/external/torch_mlp.py", files + ")", "stages(sides=[4,8],at=[1])", "use side_schedule=fixed"},
	}) {
		t.Run(c.module, func(t *testing.T) {
			_, err := execute(t, t.TempDir(), false, computed(t, c.module, c.program), c.data, "side_schedule="+c.side, "augment=true", "workers=2", "epochs=2", "batch=4", "mode=reduce")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			t.Log(err)
		})
	}
}
