package store

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// find reads test folders: five runs, and one that was killed.
func find(t *testing.T) []*Run {
	t.Helper()
	runs, err := Find(filepath.Join("testdata", "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func filtered(t *testing.T, runs []*Run, conditions ...string) []*Run {
	t.Helper()
	for _, s := range conditions {
		c, err := ParseCondition(s, time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		runs = Filter(runs, c)
	}
	return runs
}

func TestOpen(t *testing.T) {
	t.Parallel()
	runs := filtered(t, find(t), "state=done")
	if len(runs) != 5 {
		t.Fatalf("%d runs, want 5", len(runs))
	}
	for _, r := range runs {
		if r.Schema != experiments.Schema || r.Recipe != "quickstart" || r.State != Done || r.Started.IsZero() || r.Result == nil {
			t.Errorf("%s: %+v", r.Folder, r)
		}
		if r.Config.Workers != 2 || r.Config.Steps != 30 || r.Result.Steps != 30 || r.Result.Values["accuracy"] < 0.5 {
			t.Errorf("%s: %d workers, %d of %d steps, accuracy %v", r.Folder, r.Config.Workers, r.Result.Steps, r.Config.Steps, r.Result.Values["accuracy"])
		}
		c, err := r.Curve()
		if err != nil || len(c.Progress) == 0 || len(c.Evals) != 3 || c.Evals[2].Values["accuracy"] != r.Result.Values["accuracy"] {
			t.Errorf("%s: %d reports, %d evaluations, %v", r.Folder, len(c.Progress), len(c.Evals), err)
		}
		if ranks, err := r.Ranks(); err != nil || len(ranks) != 2 && r.Config.Mode == "reduce" {
			t.Errorf("%s: %d ranks, %v", r.Folder, len(ranks), err)
		}
		id := r.Folder[strings.LastIndexByte(r.Folder, '-')+1:]
		if found, err := Select("testdata/runs", []string{id}, time.Now()); err != nil || len(found) != 1 || found[0].Folder != r.Folder || !strings.HasPrefix(r.ID, id) {
			t.Errorf("%s finds %d runs: %v", id, len(found), err)
		}
	}
}

func TestTheRunsOfOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, schema := range []string{`"schema": 99, `, ""} {
		if err := os.WriteFile(filepath.Join(dir, "status.json"), []byte("{"+schema+`"state": "done"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another gradlab") {
			t.Error(err)
		}
		runs, err := Find(dir, filepath.Join("testdata", "runs"))
		if len(runs) != 6 || err == nil {
			t.Errorf("%d runs beside one that cannot be read, %v", len(runs), err)
		}
	}
}

func TestARunThatWasKilled(t *testing.T) {
	t.Parallel()
	r, err := Open(filepath.Join("testdata", "runs", "quickstart", "torn"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Foreign["a_key_of_later_versions"] != "3" || r.Config.Codec != "bf16" || r.Config.Workers != config.Default().Workers {
		t.Errorf("%v %+v", r.Foreign, r.Config)
	}
	c, next, err := r.Follow(0)
	if err != nil || len(c.Progress) != 1 || len(c.Evals) != 0 {
		t.Errorf("%+v %v", c, err)
	}
	whole, _ := os.ReadFile(filepath.Join(r.Folder, "metrics.jsonl"))
	if at := strings.LastIndexByte(string(whole), '\n') + 1; next != int64(at) {
		t.Errorf("goes on at %d, want %d", next, at)
	}
	if c, again, err := r.Follow(next); err != nil || again != next || len(c.Progress) != 0 {
		t.Errorf("a torn line was read: %+v, %d, %v", c, again, err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	runs := find(t)
	for s, want := range map[string]int{
		"codec=raw":                      2,
		"codec=raw,bf16":                 4,
		"codec!=raw":                     4,
		"codec~TOPK":                     2,
		"codec!~topk":                    4,
		"codec=feedback(topk(keep=.01))": 2,
		"workers=2":                      5,
		"workers>2":                      1,
		"accuracy>0.5":                   5,
		"accuracy<=0.5":                  0,
		"network.bandwidth=1Gbps":        6,
		"network.bandwidth<100MB/s":      0,
		"bytes>1kB":                      5,
		"bytes_up<=1 TB":                 5,
		"bytes>1TB":                      0,
		"started>2h":                     5, // the torn one began at 13:00 sharp
		"started<2026-11-21":             0,
		"run~codec=raw":                  2,
		"reached=false":                  5,
		"state=lost":                     1,
		"seed>=2":                        2,
		"schedule=cosine(lr=0.05)":       5,
		"params_sha256~zzz":              0,
	} {
		if got := len(filtered(t, runs, s)); got != want {
			t.Errorf("%s: %d runs, want %d", s, got, want)
		}
	}
	for s, want := range map[string]string{
		"accurcy>1":      `did you mean "accuracy"?`,
		"accuracy>much":  "want a number",
		"bytes>1XB":      "want a number",
		"codec>1":        "is text",
		"started>whenev": "want a day",
		"nothing":        "is no filter",
	} {
		if _, err := ParseCondition(s, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	runs := filtered(t, find(t), "state=done", "mode=reduce")
	gs := Groups(runs)
	if len(gs) != 2 || gs[0].Label != "raw" || gs[1].Label != "feedback(topk(keep=0.01))" {
		t.Fatalf("%+v", gs)
	}
	acc, err := FieldNamed("accuracy")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gs {
		if v := g.Values(acc); len(g.Runs) != 2 || len(v) != 2 || g.BySeed(acc)[2] != v[1] {
			t.Errorf("%s: %v", g.Label, v)
		}
	}
	// A configuration that ran twice counts once.
	twice := append(runs, filtered(t, find(t), "mode=reduce", "state=done")...)
	if again := Groups(twice); len(again) != 2 || len(again[0].Runs) != 2 {
		t.Errorf("%+v", again)
	}
	if all := Groups(filtered(t, find(t), "state=done")); len(all) != 3 || !strings.HasSuffix(all[0].Label, " mode=reduce policy=bsp net=sim") {
		t.Errorf("%q", all[0].Label)
	}
}

// What a program measures is a field of the runs that have it.
func TestMetricsAreFields(t *testing.T) {
	t.Parallel()
	f, err := FieldNamed("metric.mae")
	if err != nil {
		t.Fatal(err)
	}
	run := *filtered(t, find(t), "state=done")[0]
	if x, known := f.Number(&run); known {
		t.Errorf("a run without has %v", x)
	}
	r := *run.Result
	r.Values = maps.Clone(r.Values)
	r.Values["mae"] = 0.25
	run.Result, run.Metrics = &r, append(slices.Clone(run.Metrics), sgd.Metric{Name: "mae", LessIsBetter: true})
	if x, known := f.Number(&run); !known || x != 0.25 {
		t.Errorf("%v, %v", x, known)
	}
	c, err := ParseCondition("metric.mae<0.3", time.Now())
	if err != nil || len(Filter([]*Run{&run}, c)) != 1 {
		t.Errorf("%v, %v", c, err)
	}
	// Exported beside a run without, they are a column with gaps.
	other := filtered(t, find(t), "state=done")[1]
	curve, err := os.ReadFile(filepath.Join(run.Folder, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if all := Records([]*Run{&run, other}, FieldsOf([]*Run{other, &run})); all[0]["metric.mae"] != 0.25 || all[1]["metric.mae"] != nil {
		t.Errorf("records have %v and %v", all[0]["metric.mae"], all[1]["metric.mae"])
	}
	run.Folder = t.TempDir()
	curve = bytes.Replace(curve, []byte(`"eval":{`), []byte(`"eval":{"metric.mae":0.5,`), 1)
	if err := os.WriteFile(filepath.Join(run.Folder, "metrics.jsonl"), curve, 0o600); err != nil {
		t.Fatal(err)
	}
	for rows, want := range map[string]any{"runs": 0.25, "evals": 0.5} {
		frame, err := Export([]*Run{other, &run, other}, rows)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(frame.Columns, func(c Column) bool { return c.Name == "metric.mae" })
		if i < 0 {
			t.Fatalf("%s: no column", rows)
		}
		last := frame.Columns[i]
		var there []any
		for _, v := range last.Values {
			if v != nil {
				there = append(there, v)
			}
		}
		if last.Name != "metric.mae" || len(last.Values) != frame.Rows || last.Values[0] != nil || len(there) != 1 || there[0] != want {
			t.Errorf("%s: column %s has %v", rows, last.Name, last.Values)
		}
	}
}

// Labels of many runs leave out what most have in common, and stay apart.
func TestLabelsLeaveOutTheUsual(t *testing.T) {
	t.Parallel()
	base := *find(t)[0]
	var runs []*Run
	for i, kv := range [][]string{{"workers=1"}, {"workers=2"}, {"workers=4"}, {"workers=4", "net=grpc"}, {"workers=4", "mode=server", "policy=asp"}} {
		r := base
		r.ID = fmt.Sprint(i)
		for _, s := range append([]string{"mode=reduce", "net=sim", "policy=bsp", "codec=raw"}, kv...) {
			k, v, _ := strings.Cut(s, "=")
			if err := r.Config.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		runs = append(runs, &r)
	}
	gs := Groups(runs)
	var got []string
	for _, g := range gs {
		got = append(got, g.Label)
	}
	if want := []string{"one worker alone", "workers=2", "workers=4", "net=grpc workers=4", "mode=server policy=asp workers=4"}; !slices.Equal(got, want) {
		t.Errorf("labels %q", got)
	}
	if got, want := Usual(gs), []string{"mode=reduce", "policy=bsp", "net=sim"}; !slices.Equal(got, want) {
		t.Errorf("usual is %q", got)
	}
	if got := Usual(gs[:3]); got != nil {
		t.Errorf("of three, %q is usual", got)
	}
}

// What changes nothing that a run comes to makes no configuration of its own.
func TestSilentKeys(t *testing.T) {
	t.Parallel()
	runs := filtered(t, find(t), "mode=reduce", "state=done")
	before := Groups(runs)
	again := *runs[0]
	again.Config.Observe, again.Config.Target = "[order_log,trace]", record.Goal{Value: 0.4}
	gs := Groups(append(runs[:len(runs):len(runs)], &again))
	if len(gs) != len(before) || len(gs[0].Runs) != len(before[0].Runs) || gs[0].Label != before[0].Label {
		t.Errorf("%d groups, the first %q of %d; without a traced run %d, %q of %d", len(gs), gs[0].Label, len(gs[0].Runs), len(before), before[0].Label, len(before[0].Runs))
	}
	if v := Varying([]*Run{runs[0], &again}); len(v) != 0 {
		t.Errorf("a run and the same with a trace differ in %v", v)
	}
}

// A run without weights has no accuracy, which is not one of nought.
func TestWeightlessRunsLearnNothing(t *testing.T) {
	t.Parallel()
	run := *find(t)[0]
	run.Config.Weightless = true
	f, err := FieldNamed("accuracy")
	if err != nil {
		t.Fatal(err)
	}
	if f.Value(&run) != nil {
		t.Errorf("accuracy %v", f.Value(&run))
	}
	if rows := List([]*Run{&run, find(t)[1]}, []Field{f}).Rows; rows[0][0] != "–" || rows[1][0] == "–" {
		t.Errorf("listed as %q", rows)
	}
}

func TestNoFieldHidesAKey(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range Fields() {
		if seen[f.Name] || f.Doc == "" {
			t.Errorf("field %q is there twice, or says nothing", f.Name)
		}
		seen[f.Name] = true
	}
}
