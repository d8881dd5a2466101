package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEmbeddedRecipes(t *testing.T) {
	t.Parallel()
	if len(RecipeNames()) == 0 {
		t.Fatal("no recipes")
	}
	for _, name := range RecipeNames() {
		t.Run(name, func(t *testing.T) {
			r, err := LoadRecipe(name)
			if err != nil {
				t.Fatal(err)
			}
			if r.About == "" {
				t.Error("the recipe does not say what it is about")
			}
			for _, quick := range []bool{false, true} {
				runs, err := r.Runs(nil, quick)
				if err != nil {
					t.Errorf("quick=%v: %v", quick, err)
				}
				hashes := map[string]string{}
				for _, run := range runs {
					h := run.Config.Hash()
					if other, ok := hashes[h]; ok {
						t.Errorf("quick=%v: runs %q and %q are the same", quick, other, run.Name)
					}
					hashes[h] = run.Name
				}
				if len(runs) == 0 {
					t.Errorf("quick=%v: no runs", quick)
				}
			}
		})
	}
}

func TestLoadRecipe(t *testing.T) {
	t.Parallel()
	if _, err := LoadRecipe("quickstrat"); err == nil || !strings.Contains(err.Error(), `did you mean "quickstart"?`) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if _, err := LoadRecipe(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("steps: 3\nsead: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRecipe(file); err == nil || !strings.Contains(err.Error(), file+":2: unknown key") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("steps: 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := LoadRecipe(file); err != nil || r.Name != "mine" {
		t.Errorf("%v, %v", r, err)
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	const text = "steps: 3\nseed: [1, 2]\nruns:\n  - {name: a, batch: 4}\n  - {name: b, batch: 8, seed: 3}\nquick: {steps: 1}\n"
	r, err := ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	names := func(overrides ...string) string {
		runs, err := r.Runs(overrides, true)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, run := range runs {
			if run.Config.Steps != 1 {
				t.Errorf("run %s makes %d steps in its quick form", run.Name, run.Config.Steps)
			}
			out = append(out, run.Name)
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		over []string
		want string
	}{
		{nil, "a,seed=1 a,seed=2 b"},
		{[]string{"run=b"}, "b"},
		{[]string{"run=b,a", "seed=7"}, "b a"},
	} {
		if got := names(c.over...); got != c.want {
			t.Errorf("%v gives %q, want %q", c.over, got, c.want)
		}
	}
	if _, err := r.Runs([]string{"run=aa"}, false); err == nil || !strings.Contains(err.Error(), `did you mean "a"?`) {
		t.Errorf("%v", err)
	}
}

// A configuration as a run folder keeps it is itself a recipe, of the same run.
func TestConfigIsARecipe(t *testing.T) {
	t.Parallel()
	for _, name := range RecipeNames() {
		r, err := LoadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, quick := range []bool{false, true} {
			runs, err := r.Runs(nil, quick)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range runs {
				again := mustRuns(t, string(run.Config.YAML()))
				if len(again) != 1 || again[0].Config != run.Config || again[0].Config.Hash() != run.Config.Hash() {
					t.Errorf("%s %s is not the same when read again", name, run.Name)
				}
			}
		}
	}
}

// Configurations that cannot work are refused together, before one runs.
func TestCheckAll(t *testing.T) {
	t.Parallel()
	runs := mustRuns(t, "steps: 2\ndata: digits\n", "codec=raw,feedback(qsgd(bits=2)),feedback(randomk)", "mode=reduce")
	if err := CheckAll(runs[:1], Places{}, nil); err != nil {
		t.Fatal(err)
	}
	err := CheckAll(runs, Places{}, nil)
	bad := 0
	for _, r := range runs {
		if _, e := r.Build(Places{}, nil); e != nil {
			bad++
			if err == nil || !strings.Contains(err.Error(), r.Name) {
				t.Errorf("run %s is not among the refused: %v", r.Name, err)
			}
		}
	}
	if bad == 0 {
		t.Skip("all of these can run")
	}
}

// Whatever a recipe holds, it is read or refused; nothing panics or takes for
// ever.
func FuzzRecipe(f *testing.F) {
	for _, name := range RecipeNames() {
		b, err := recipeFiles.ReadFile("recipes/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "codec=raw,topk(keep=0.1)")
	}
	f.Add(Default().YAML(), "steps=3")
	for _, s := range []string{
		"base: quickstart\ncodec: raw\n", "base: [a]\n", "base: ./none.yaml\n", "base: fuzz.yaml\n", "base: ..\n", "base: decentralised\nruns: []\n",
		"", "a", "- a", "a: b", "device: {flops: 1e9}", "device.flops: 1\ndevice: 3\n", "seed: &x [1, 2]\nbatch: *x\n", "<<: {seed: 3}\n",
		"runs:\n- name: a\n  seed: 1\n", "runs: [1, a, [2], {name: {}}]", "quick: [1]", "quick: {quick: 1}", "? [a]\n: b\n", "seed: !!binary x\n", "1: 2\n", "~: 1\n", ": 1\n", "a: |\n  b\n",
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte("seed: [1,2,3]\nbatch: [1,2,3]\n"), "workers=1,2")
	f.Fuzz(func(t *testing.T, b []byte, override string) {
		r, err := ParseRecipe("fuzz", "fuzz.yaml", b)
		if err != nil && !strings.Contains(err.Error(), "fuzz.yaml") {
			t.Errorf("an error that does not name the file: %v", err)
		}
		if r == nil {
			return
		}
		for _, over := range [][]string{nil, {override}} {
			runs, err := r.Runs(over, len(b)%2 == 0)
			for _, run := range runs[:min(len(runs), 3)] {
				if err != nil {
					break
				}
				again, err := ParseRecipe("again", "again.yaml", run.Config.YAML())
				if err != nil {
					t.Fatalf("its configuration cannot be read: %v", err)
				}
				back, err := again.Runs(nil, false)
				if err != nil || len(back) != 1 || back[0].Config.Hash() != run.Config.Hash() {
					t.Fatalf("its configuration reads differently: %v\n%s", err, run.Config.YAML())
				}
			}
		}
	})
}

// Runs are named after the keys of a command line that changed the recipe: not after those
// that only observe, nor after values that it has anyway.
func TestNameChanges(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("test", "test.yaml", []byte("batch: 16\nruns:\n- {name: a, codec: raw}\n- {name: b, codec: bf16}\n"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.Runs(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	over := []string{"batch=16", "workers=2", "target=0.9", "seed=1,2", "codec=raw"}
	runs, err := r.Runs(over, false)
	if err != nil {
		t.Fatal(err)
	}
	NameChanges(runs, own, over)
	var names []string
	for _, r := range runs {
		names = append(names, r.Name)
	}
	want := "a,seed=1,workers=2,codec=raw a,seed=2,workers=2,codec=raw b,seed=1,workers=2,codec=raw b,seed=2,workers=2,codec=raw"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
