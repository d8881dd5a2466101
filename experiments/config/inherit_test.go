package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recipeFilesOf writes recipes into a fresh folder.
func recipeFilesOf(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func described(runs []Run) (out []string) {
	for _, r := range runs {
		c := r.Config
		out = append(out, fmt.Sprintf("%s: steps=%d epochs=%g seed=%d batch=%d codec=%s lr=%s", r.Name, c.Steps, c.Epochs, c.Seed, c.Batch, c.Codec, strings.TrimPrefix(c.Schedule, "constant")))
	}
	return out
}

func TestBase(t *testing.T) {
	t.Parallel()
	dir := recipeFilesOf(t, map[string]string{
		"base.yaml": "about: the base\nepochs: 3\nbatch: 8\ncodec: [raw, bf16]\nseed: 4\n" +
			"runs:\n  - {name: a, schedule: constant(lr=0.5), quick: {batch: 2}}\n  - {name: b, seed: 5}\nquick: {epochs: 1}\n",
		"keys.yaml":       "base: base.yaml\nsteps: 7\ncodec: raw\n",
		"axes.yaml":       "base: ./base.yaml\ncodec: raw\nbatch: [8, 16]\n",
		"variants.yaml":   "base: base.yaml\ncodec: raw\nruns:\n  - {name: b, batch: 64}\n  - {name: c, steps: 9}\n",
		"none.yaml":       "base: base.yaml\nruns: []\n",
		"quick.yaml":      "base: base.yaml\ncodec: raw\nquick: {steps: 2}\nruns:\n  - {name: a, quick: {batch: 3}}\n",
		"sub/deeper.yaml": "base: ../keys.yaml\nabout: two below\nseed: 9\nruns: []\n",
		"embedded.yaml":   "base: quickstart\ncodec: raw\nworkers: 2\n",
	})
	for _, c := range []struct {
		file  string
		quick bool
		about string
		want  []string
	}{
		{"keys.yaml", false, "the base", []string{
			"a: steps=7 epochs=0 seed=4 batch=8 codec=raw lr=(lr=0.5)",
			"b: steps=7 epochs=0 seed=5 batch=8 codec=raw lr=(lr=0.1)"}},
		{"axes.yaml", false, "the base", []string{
			"a,batch=8: steps=0 epochs=3 seed=4 batch=8 codec=raw lr=(lr=0.5)",
			"a,batch=16: steps=0 epochs=3 seed=4 batch=16 codec=raw lr=(lr=0.5)",
			"b,batch=8: steps=0 epochs=3 seed=5 batch=8 codec=raw lr=(lr=0.1)",
			"b,batch=16: steps=0 epochs=3 seed=5 batch=16 codec=raw lr=(lr=0.1)"}},
		{"variants.yaml", false, "the base", []string{
			"a: steps=0 epochs=3 seed=4 batch=8 codec=raw lr=(lr=0.5)",
			"b: steps=0 epochs=3 seed=5 batch=64 codec=raw lr=(lr=0.1)",
			"c: steps=9 epochs=0 seed=4 batch=8 codec=raw lr=(lr=0.1)"}},
		{"none.yaml", false, "the base", []string{
			"codec=raw: steps=0 epochs=3 seed=4 batch=8 codec=raw lr=(lr=0.1)",
			"codec=bf16: steps=0 epochs=3 seed=4 batch=8 codec=bf16 lr=(lr=0.1)"}},
		{"quick.yaml", true, "the base", []string{
			"a: steps=2 epochs=0 seed=4 batch=3 codec=raw lr=(lr=0.5)",
			"b: steps=2 epochs=0 seed=5 batch=8 codec=raw lr=(lr=0.1)"}},
		{"sub/deeper.yaml", false, "two below", []string{
			": steps=7 epochs=0 seed=9 batch=8 codec=raw lr=(lr=0.1)"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			r, err := LoadRecipe(filepath.Join(dir, c.file))
			if err != nil {
				t.Fatal(err)
			}
			runs, err := r.Runs(nil, c.quick)
			if err != nil {
				t.Fatal(err)
			}
			if got := described(runs); !slices.Equal(got, c.want) || r.About != c.about {
				t.Errorf("%s\n%s\nwant\n%s", r.About, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	// Over an embedded recipe the same comes out as with the keys on the command line.
	r, err := LoadRecipe(filepath.Join(dir, "embedded.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	quickstart, err := LoadRecipe("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	want, err := quickstart.Runs([]string{"codec=raw", "workers=2"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, sameAs) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// A cluster in a recipe replaces what its base says of the keys that it sets, as
// on the command line.
func TestBaseUnderACluster(t *testing.T) {
	t.Parallel()
	dir := recipeFilesOf(t, map[string]string{"a.yaml": "base: quickstart\ncluster: piz-daint\n", "b.yaml": "base: a.yaml\ndevice.flops: 3e9\n"})
	for file, want := range map[string][]string{"a.yaml": {"cluster=piz-daint"}, "b.yaml": {"cluster=piz-daint", "device.flops=3e9"}} {
		r, err := LoadRecipe(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Runs([]string{"timing=resnet50"}, false)
		if err != nil {
			t.Fatal(err)
		}
		quickstart, _ := LoadRecipe("quickstart")
		typed, err := quickstart.Runs(append(want, "timing=resnet50"), false)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, typed, sameAs) {
			t.Errorf("%s:\n%+v\nwant\n%+v", file, got[0], typed[0])
		}
	}
}

func TestBaseErrors(t *testing.T) {
	t.Parallel()
	dir := recipeFilesOf(t, map[string]string{
		"self.yaml":      "seed: 1\nbase: self.yaml\n",
		"one.yaml":       "base: two.yaml\n",
		"two.yaml":       "about: x\nbase: ./sub/three.yaml\n",
		"sub/three.yaml": "base: ../one.yaml\n",
		"missing.yaml":   "\nbase: nowhere.yaml\n",
		"unknown.yaml":   "base: quickstrat\n",
		"folder.yaml":    "base: ./sub\n",
		"list.yaml":      "base: [quickstart, codecs]\n",
		"empty.yaml":     "base:\n",
		"twice.yaml":     "base: quickstart\nbase: codecs\n",
		"bad.yaml":       "bach: 3\n",
		"onbad.yaml":     "base: bad.yaml\nsead: 3\n",
	})
	if err := os.Symlink("loop.yaml", filepath.Join(dir, "other.yaml")); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "loop.yaml"), []byte("base: other.yaml\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string][]string{
		"self.yaml":    {`self.yaml:2: key "base"`, "self.yaml → self.yaml"},
		"one.yaml":     {`one.yaml:1: key "base"`, "one.yaml → two.yaml → three.yaml → one.yaml"},
		"loop.yaml":    {`loop.yaml → loop.yaml`},
		"missing.yaml": {`missing.yaml:2: key "base"`, "nowhere.yaml"},
		"unknown.yaml": {`unknown.yaml:1: key "base"`, `did you mean "quickstart"?`},
		"folder.yaml":  {`folder.yaml:1: key "base"`, "is no file"},
		"list.yaml":    {`list.yaml:1: key "base": want the name of one recipe`},
		"empty.yaml":   {`empty.yaml:1: key "base": want the name of one recipe`},
		"twice.yaml":   {`twice.yaml:2: key "base" is given twice`},
		"onbad.yaml":   {`onbad.yaml:1: key "base"`, `bad.yaml:1: unknown key "bach"`, `onbad.yaml:2: unknown key "sead"`},
	} {
		t.Run(file, func(t *testing.T) {
			_, err := LoadRecipe(filepath.Join(dir, file))
			wantAll(t, err, want)
		})
	}
}

// A resolved recipe needs no other and gives the same runs.
func TestResolvedRecipe(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, about string, runs []Run) {
		t.Helper()
		b, err := ResolvedRecipe(about, runs)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseRecipe("again", "again.yaml", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		again, err := r.Runs(nil, false)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		same := func(a, b Run) bool { return a.Name == b.Name && a.Config == b.Config } // it has neither a paper nor a global batch
		if !slices.EqualFunc(again, runs, same) || r.About != about {
			t.Errorf("it gives\n%+v\nwant\n%+v\n%s", again, runs, b)
		}
	}
	for _, name := range RecipeNames() {
		t.Run(name, func(t *testing.T) {
			r, err := LoadRecipe(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, quick := range []bool{false, true} {
				runs, err := r.Runs(nil, quick)
				if err != nil {
					t.Fatal(err)
				}
				check(t, r.About, runs)
			}
		})
	}
	check(t, "", mustRuns(t, "steps: 3\n"))
	check(t, "", mustRuns(t, "steps: 3\ncluster: piz-daint\nnetwork.bandwidth: 1Gbps\ntiming: resnet50\ndevice: none\n"))
	check(t, "", mustRuns(t, "epochs: 0.5\ncluster: [piz-daint, p2-xlarge, none]\nnetwork.bandwidth: 3e7\ntiming: [resnet50, inception3]\nseed: 18446744073709551615\n"))
}
