package reproduce

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// digitsContest is a small one; its runs take a moment.
func digitsContest(t *testing.T) *contest {
	dir := t.TempDir()
	lab := &Lab{Out: dir, Runs: experiments.Options{Recipe: "contest", Out: dir}}
	return &contest{lab: lab, tries: 2, seeds: 3,
		keys: []string{"data=digits", "model=logistic", "workers=2", "batch=8", "epochs=0", "steps=20", "mode=reduce", "nonfinite=zero"}}
}

func ratesOf(rates ...float64) []candidate {
	return grid(rates, nil, func(rate float64, _ string) []string { return []string{fmt.Sprintf("schedule=constant(lr=%g)", rate)} })
}

// Choices are made on samples held out and on seeds that are not reported; what is
// reported was evaluated on the test set. Budgets are those that the table says.
func TestContest(t *testing.T) {
	t.Parallel()
	c := digitsContest(t)
	a := c.tune("plain", ratesOf(0.0001, 1, 0.001))
	b := c.tune("momentum", grid([]float64{0.01, 0.02, 0.04}, nil, func(rate float64, _ string) []string {
		return []string{"optimizer=momentum", fmt.Sprintf("schedule=constant(lr=%g)", rate)}
	}))
	same := c.follow(a, "the same", ratesOf(0.0001, 1, 0.001))
	other := c.follow(a, "four workers", grid([]float64{0.0001, 1, 0.001}, nil, func(rate float64, _ string) []string {
		return []string{"workers=4", fmt.Sprintf("schedule=constant(lr=%g)", rate)}
	}))
	if err := c.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.chosen != 1 || a.setting() != "1" || other.chosen != 1 || other.first().Config["schedule"] != "constant(lr=1)" {
		t.Errorf("chosen %s and %s: %v", a.setting(), other.setting(), other.first().Config)
	}
	if same.sample != a.sample {
		t.Error("one configuration was run for two sides")
	}
	folders := map[string]bool{}
	for _, s := range []*side{a, b} {
		for i, tried := range s.tried {
			for k, r := range tried.Runs {
				folders[r.Folder] = true
				if r.Config.Seed != uint64(firstTry+k) || r.Config.Validation != heldOut {
					t.Errorf("%s, candidate %d: seed %d, validation %g", s.name, i, r.Config.Seed, r.Config.Validation)
				}
			}
			if tried.mean() > s.tried[s.chosen].mean() {
				t.Errorf("%s: candidate %d is better than the chosen one", s.name, i)
			}
		}
	}
	for _, s := range []*side{a, b, other} {
		for k, r := range s.Runs {
			folders[r.Folder] = true
			if r.Config.Seed != uint64(k+1) || r.Config.Validation != 0 || r.Result.TestSamples != a.first().TestSamples {
				t.Errorf("%s: seed %d, validation %g, %d test samples", s.name, r.Config.Seed, r.Config.Validation, r.Result.TestSamples)
			}
		}
	}
	made, err := filepath.Glob(filepath.Join(c.lab.Out, "*", "*", "result.json"))
	if err != nil || len(folders) != 2*3*2+3*3 || len(made) != len(folders) {
		t.Errorf("%d runs known, %d folders: %v", len(folders), len(made), err)
	}
	var r Report
	c.tables(&r, "the rate", a)
	if rows := r.Tables[0].Rows; rows[0][1] != "3 candidates" || rows[1][1] != rows[0][1] || rows[2][1] != "none" || rows[3][3] != "as plain" || strings.Count(rows[0][3], ";") != 2 {
		t.Errorf("budgets %q", rows)
	}
	if rows := r.Tables[1].Rows; rows[0][4] != "" || rows[2][4] != "+0.00 ± 0.00" || rows[1][2] != "20" {
		t.Errorf("results %q", rows)
	}
	// The rate of the side with momentum is the greatest of its grid.
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "momentum chose the edge of its grid, 0.04:") {
		t.Errorf("notes %q", r.Notes)
	}
}

// Sides with unequal budgets are not compared.
func TestUnfairContests(t *testing.T) {
	t.Parallel()
	for want, unfair := range map[string]func(*contest){
		"no candidate":                 func(c *contest) { c.tune("a", nil) },
		"budgets must be equal":        func(c *contest) { c.tune("a", ratesOf(1, 2)); c.tune("b", ratesOf(1, 2, 3)) },
		"whose choice it takes over":   func(c *contest) { c.follow(c.tune("a", ratesOf(1, 2)), "b", ratesOf(1)) },
		"2 to 100 that are reported":   func(c *contest) { c.tune("a", ratesOf(1)); c.seeds = 1 },
		"wants a seed for its choices": func(c *contest) { c.tune("a", ratesOf(1)); c.tries = 0 },
	} {
		c := digitsContest(t)
		unfair(c)
		if err := c.hold(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// accuracies is a side whose seeds ended so.
func accuracies(name string, percent ...float64) *side {
	g := &store.Group{}
	for i, p := range percent {
		r := &store.Run{State: store.Done, Result: &experiments.Result{Status: "done", Values: record.Values{"accuracy": p / 100}}}
		r.Config.Seed = uint64(i + 1)
		g.Runs = append(g.Runs, r)
	}
	return &side{name: name, sample: &sample{name, g}}
}

// An ordering holds only if the interval of the paired difference lies above zero,
// and what contradicts the source is said.
func TestOrderings(t *testing.T) {
	t.Parallel()
	low, high, near := accuracies("low", 90, 91, 92), accuracies("high", 92.1, 93, 93.9), accuracies("near", 90.5, 90.8, 92.1)
	var r Report
	r.better(Claim, high, low)
	r.better(Claim, low, high)
	r.better(Hypothesis, near, low)
	r.better(Claim, low, low)
	r.noWorse(Claim, high, low)
	r.noWorse(Claim, near, low)
	r.noWorse(Claim, low, near)
	r.noWorse(Claim, low, high)
	var ok []bool
	for _, p := range r.Points {
		ok = append(ok, p.OK)
		if !math.IsNaN(p.Published) {
			t.Errorf("%s: published %g", p.Name, p.Published)
		}
	}
	if want := []bool{true, false, false, false, true, true, true, false}; !slices.Equal(ok, want) {
		t.Errorf("%v, want %v: %+v", ok, want, r.Points)
	}
	var kinds []string
	for _, n := range r.Notes {
		kinds = append(kinds, n[:strings.Index(n, ":")])
	}
	if want := []string{"disagrees with the source", "not shown", "not shown", "disagrees with the source"}; !slices.Equal(kinds, want) {
		t.Errorf("%q", r.Notes)
	}
	if got := r.rows()[0][1]; got != "" {
		t.Errorf("published %q, want none", got)
	}
}

func TestGrid(t *testing.T) {
	t.Parallel()
	var got []string
	var edges []bool
	for _, c := range grid(octaves(0.1, 3), []string{"a", "b"}, func(rate float64, knob string) []string { return []string{fmt.Sprint(knob, rate)} }) {
		got, edges = append(got, c.name+"="+c.keys[0]), append(edges, c.edge)
	}
	if want := []string{"0.1 a=a0.1", "0.2 a=a0.2", "0.4 a=a0.4", "0.1 b=b0.1", "0.2 b=b0.2", "0.4 b=b0.4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if want := []bool{true, false, true, true, false, true}; !slices.Equal(edges, want) {
		t.Errorf("%v", edges)
	}
	if got := digits(0.0707); got != 0.071 {
		t.Errorf("%v", got)
	}
	if got := digits(1414.2); got != 1400 {
		t.Errorf("%v", got)
	}
}
