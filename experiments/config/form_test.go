package config

import (
	"slices"
	"strings"
	"testing"
)

const formed = `about: a paper's
data: synthetic(dim=8)
model: logistic
mode: reduce
workers: 8
global_batch: 64
micro_batch: 4
epochs: 2
paper:
  cite: Somebody 2017
  sources: {epochs: table 1, workers: section 2}
  expect: [{of: "error, %", value: 23.5, spread: 0.1, source: "table 1, mean ± deviation of 5"}]
  row: [{devices: 8 GPUs, minutes: 60, efficiency: 90, unit: 4, source: table 2}]
forms:
  timing: {cluster: minsky, timing: resnet50, workers: 16}
  proxy:
    about: a small one
    epochs: 1
    global_batch: 32
    paper: {sources: {epochs: half of them}}
    runs:
      - {name: a, seed: 1}
      - {name: b, seed: 2, quick: {steps: 3}}
`

func parse(t *testing.T, text string) *Recipe {
	t.Helper()
	r, err := ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func runsOf(t *testing.T, r *Recipe, quick bool, over ...string) []Run {
	t.Helper()
	runs, err := r.Runs(over, quick)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// The samples of an update are those of the recipe, whatever the number of workers.
func TestGlobalBatch(t *testing.T) {
	t.Parallel()
	r := parse(t, formed)
	for _, c := range []struct {
		over                       []string
		workers, batch, accumulate int
	}{
		{nil, 8, 8, 2},
		{[]string{"workers=64"}, 64, 1, 1},
		{[]string{"workers=1"}, 1, 64, 16},
		{[]string{"workers=2", "micro_batch=10"}, 2, 32, 4},
		{[]string{"workers=2", "accumulate=8"}, 2, 32, 8},
		{[]string{"global_batch=16"}, 8, 2, 1},
		{[]string{"batch=5"}, 8, 5, 1}, // which takes its place
	} {
		got := runsOf(t, r, false, c.over...)[0].Config
		if got.Workers != c.workers || got.Batch != c.batch || got.Accumulate != c.accumulate {
			t.Errorf("%v: %d workers of %d in %d micro-batches, want %d of %d in %d", c.over, got.Workers, got.Batch, got.Accumulate, c.workers, c.batch, c.accumulate)
		}
	}
	kept := runsOf(t, r, false, "workers=2")[0].Begins()
	if want := "an update has 64 samples, however many workers there are: 2 workers of 32 each, computed in 8 micro-batches of 4"; len(kept) != 2 || !strings.HasPrefix(kept[0], want) {
		t.Errorf("%q, want %q", kept, want)
	}
	if want := "published: error, %: 23.5 ± 0.1 (table 1, mean ± deviation of 5)"; kept[1] != want {
		t.Errorf("%q, want %q", kept[1], want)
	}
	if got := runsOf(t, r, false, "batch=5")[0]; got.Global != 0 || got.Kept() != "" {
		t.Errorf("with batch=5 the global batch is still %d: %q", got.Global, got.Kept())
	}
	if names := runsOf(t, r, false, "global_batch=16,32"); names[0].Name != "global_batch=16" || names[1].Config.Batch != 4 {
		t.Errorf("%+v", names)
	}
	for over, want := range map[string]string{
		"workers=7":        "64 samples cannot be shared out evenly among workers=7; take 4 or 8 workers",
		"global_batch=0":   `key "global_batch": want a whole number of samples, at least 1`,
		"micro_batch=some": `key "micro_batch": want a whole number of samples`,
	} {
		if _, err := r.Runs([]string{over}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", over, err, want)
		}
	}
}

// A form is laid over its recipe, and over that of the recipe's base.
func TestForms(t *testing.T) {
	t.Parallel()
	r := parse(t, formed)
	if got := r.Forms(); !slices.Equal(got, []string{FormProxy, FormTiming}) {
		t.Errorf("forms %v", got)
	}
	proxy, err := r.Form(FormProxy)
	if err != nil {
		t.Fatal(err)
	}
	if proxy.Name != "test-proxy" || proxy.About != "a small one" || proxy.Paper.Cite != "Somebody 2017" {
		t.Errorf("%+v", proxy)
	}
	if got := proxy.Paper.Sources; got["epochs"] != "half of them" || got["workers"] != "section 2" {
		t.Errorf("sources %v", got)
	}
	if len(proxy.Paper.Expect) > 0 {
		t.Errorf("a proxy is said to reach what the paper did: %v", proxy.Paper.Expect)
	}
	runs := runsOf(t, proxy, true)
	if len(runs) != 2 || runs[0].Name != "a" || runs[0].Config.Epochs != 1 || runs[0].Config.Batch != 4 || runs[1].Config.Steps != 3 {
		t.Errorf("%+v", runs)
	}
	timing, err := r.Form(FormTiming)
	if err != nil {
		t.Fatal(err)
	}
	if c := runsOf(t, timing, false)[0].Config; c.Cluster != "minsky" || c.Batch != 4 || c.Epochs != 2 {
		t.Errorf("%+v", c)
	}
	if c := runsOf(t, r, false)[0].Config; c.Cluster != "none" || c.Epochs != 2 || c.Workers != 8 {
		t.Errorf("a form has changed its recipe: %+v", c)
	}
	if _, err := parse(t, "steps: 1\n").Form(FormProxy); err == nil || !strings.Contains(err.Error(), `recipe test has no form "proxy"; these have one: `) {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		"forms: {quick: {steps: 1}}":                      "test.yaml:1: key \"forms\": want proxy or timing, not \"quick\"",
		"forms:\n  proxy: {base: quickstart}":             "test.yaml:2: a form is laid over its recipe and has no base",
		"forms:\n  proxy: {sead: 1}":                      "test.yaml:2: unknown key",
		"forms: 3":                                        "test.yaml:1: key \"forms\"",
		"forms: {proxy: 3}":                               "test.yaml:1: form \"proxy\": want keys",
		"paper: 3":                                        "test.yaml:1: key \"paper\"",
		"paper:\n  site: x":                               "test.yaml:2: key \"paper\" has no \"site\"",
		"paper:\n  expect:\n    - {is: 3}":                "test.yaml:3: key \"paper.expect\" has no \"is\"",
		"paper: {expect: [{value: much}]}":                "cannot unmarshal",
		"steps: 1\nforms: {proxy: {}}\nforms: {}\nrun: 1": "given twice",
	} {
		if _, err := ParseRecipe("test", "test.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A name alone is the part as the recipe of a paper has it; elsewhere it has its
// defaults.
func TestOptionsOfThePaper(t *testing.T) {
	t.Parallel()
	r := parse(t, formed)
	if got := runsOf(t, r, false, "data=synthetic")[0].Config.Data; got != "synthetic(dim=8)" {
		t.Errorf("data=synthetic is %s, want the recipe's", got)
	}
	if got := runsOf(t, r, false, "data=synthetic(dim=9),digits"); got[0].Config.Data != "synthetic(dim=9)" || got[1].Config.Data != "digits" {
		t.Errorf("%s, %s", got[0].Config.Data, got[1].Config.Data)
	}
	if got := mustRuns(t, "data: synthetic(dim=8)\nsteps: 1\n", "data=synthetic")[0].Config.Data; got == "synthetic(dim=8)" {
		t.Errorf("a recipe of no paper keeps %s", got)
	}
}

// Who lays a recipe over one with forms has its forms, changed where he says so.
func TestFormsOfTheBase(t *testing.T) {
	t.Parallel()
	under := parse(t, formed)
	over := parse(t, "epochs: 3\nforms: {proxy: {seed: 9, runs: []}}\n")
	over.layOn(under)
	proxy, err := over.Form(FormProxy)
	if err != nil {
		t.Fatal(err)
	}
	runs := runsOf(t, proxy, false)
	if len(runs) != 1 || runs[0].Config.Seed != 9 || runs[0].Config.Epochs != 1 {
		t.Errorf("%+v", runs)
	}
	timing, err := over.Form(FormTiming)
	if err != nil {
		t.Fatal(err)
	}
	if c := runsOf(t, timing, false)[0].Config; c.Epochs != 3 || c.Cluster != "minsky" {
		t.Errorf("%+v", c)
	}
}
