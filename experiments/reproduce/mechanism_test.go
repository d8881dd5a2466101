package reproduce

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// Every study names what it is about, in words of their own, and says what is done in
// the place of each.
func TestMechanismsAreNamed(t *testing.T) {
	t.Parallel()
	for _, name := range Studies.Names() {
		s, _ := Studies.Proto(name)
		seen := map[string]bool{}
		for _, m := range s.Mechanisms() {
			if m.Name == "" || m.Doc == "" || seen[m.Name] {
				t.Errorf("%s: mechanism %+v", name, m)
			}
			seen[m.Name] = true
			if err := Has(name, m.Name); err != nil {
				t.Error(err)
			}
		}
		if len(seen) == 0 {
			t.Errorf("study %s names no mechanism, so that nothing shows that it can fail", name)
		}
		if err := Has(name, "no such mechanism"); err == nil {
			t.Errorf("%s has a mechanism that nobody named", name)
		}
	}
}

// Runs that have become one without a mechanism are trained once, whoever asks when.
func TestOneConfigurationIsTrainedOnce(t *testing.T) {
	t.Parallel()
	c := config.Default()
	for _, kv := range [][2]string{{"data", "digits"}, {"model", "logistic"}, {"epochs", "0"}, {"steps", "2"}} {
		if err := c.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	opt, f := experiments.Options{Recipe: "test", Out: t.TempDir()}, &flights{}
	first, err := f.once(t.Context(), config.Run{Name: "a", Config: c}, opt)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.once(t.Context(), config.Run{Name: "b", Config: c}, opt); err != nil || again != first {
		t.Errorf("trained twice, in %s and %s: %v", first.Folder, again.Folder, err)
	}
	if err := c.Set("seed", "7"); err != nil {
		t.Fatal(err)
	}
	if other, err := f.once(t.Context(), config.Run{Name: "c", Config: c}, opt); err != nil || other == first {
		t.Errorf("another seed is the same run: %v", err)
	}
}

// A study that takes only seconds holds as it is, and without a mechanism it turns red:
// of every study, every mechanism that takes only seconds. `gradlab reproduce all --quick --mutants` tries the others.
func TestStudiesTurnRed(t *testing.T) {
	for _, name := range Studies.Names() {
		s, _ := Studies.Proto(name)
		quick := func(m Mechanism) bool { return !m.Slow }
		some := false
		for _, m := range s.Mechanisms() {
			some = some || quick(m)
		}
		if !some {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if !patience.Long {
				t.Skip("takes seconds")
			}
			t.Parallel()
			dir := t.TempDir()
			lab := func(suffix string) *Lab {
				return &Lab{Quick: true, Out: dir + "/" + name + suffix, Runs: experiments.Options{Recipe: name, Out: dir}}
			}
			whole, err := Mutants(t.Context(), name, quick, lab, func(trial Trial) {
				if !trial.Red() {
					t.Errorf("without %s all of %d points hold that held with it: %s", trial.Mechanism, trial.Judged, trial.Why)
				}
				t.Logf("without %s %d of %d points turn: %s", trial.Mechanism, len(trial.Turned), trial.Judged, strings.Join(trial.Turned, "; "))
			})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := whole.Write(&text, "box"); err != nil {
				t.Fatal(err)
			}
			if n := whole.Failed(); n > 0 || len(whole.Points) == 0 {
				t.Errorf("as it is %d of %d points do not hold:\n%s", n, len(whole.Points), &text)
			}
			for _, f := range whole.Figures {
				if s, err := os.Stat(f); err != nil || s.Size() == 0 {
					t.Errorf("figure %s: %v", f, err)
				}
			}
			if _, err := json.Marshal(whole); err != nil {
				t.Error(err)
			}
		})
	}
}

// A study that does not notice stays green, one whose runs have nothing of a
// mechanism is not tried, and what cannot be carried out is not red.
func TestTrials(t *testing.T) {
	t.Parallel()
	a, b := &Report{}, &Report{}
	for _, r := range []*Report{a, b} {
		r.within(Claim, "held before and after", "", 1, 1, 0)
		r.within(Claim, "missed before", "", 1, 2, 0)
		r.within(Fitted, "not judged", "", 1, map[bool]float64{true: 1, false: 2}[r == a], 0)
	}
	a.within(Claim, "only before", "", 1, 1, 0)
	if held, names := turned(a, b); held != 2 || len(names) != 0 {
		t.Errorf("%d held, %v turned", held, names)
	}
	a.within(Claim, "turns", "", 1, 1, 0)
	b.within(Claim, "turns", "", 1, 2, 0)
	if held, names := turned(a, b); held != 3 || len(names) != 1 || names[0] != "turns" {
		t.Errorf("%d held, %v turned", held, names)
	}
	var out strings.Builder
	trials := []Trial{{Study: "s", Mechanism: "m", Judged: 3, Turned: names(a, b)}, {Study: "s", Mechanism: "n", Judged: 3}, {Study: "s", Mechanism: "o", Why: "no such run"}}
	if err := WriteTrials(&out, "csv", trials); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"red,1 of 3,turns", "GREEN,0 of 3", "NOT TRIED,,no such run", "3 mechanisms taken out, 2 not noticed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func names(a, b *Report) []string { _, n := turned(a, b); return n }

// A hypothesis of the source that does not hold is in the first line.
func TestNotBorneOut(t *testing.T) {
	t.Parallel()
	r := &Report{Study: "s", Title: "t", Without: "m"}
	r.holds(Hypothesis, "water is wet", true)
	r.holds(Hypothesis, "the moon is cheese", false)
	r.holds(Claim, "a claim", false)
	var out strings.Builder
	if err := r.Write(&out, "box"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if want := "s: t, WITHOUT m (1 of 2 hypotheses of the source are not borne out)"; lines[0] != want {
		t.Errorf("first line %q, want %q", lines[0], want)
	}
	if want := "not borne out, 1 of 2: the moon is cheese"; lines[1] != want {
		t.Errorf("second line %q, want %q", lines[1], want)
	}
}

// What is taken out of a run is what a key says.
func TestSwap(t *testing.T) {
	t.Parallel()
	l := &Lab{removed: &removal{Mechanism: Mechanism{Name: "x", Off: swap("policy", `slack=\d+`, "slack=0")}}}
	c := config.Default()
	if err := l.set(&c, []string{"policy=ssp(slack=3)", "workers=2"}); err != nil || c.Policy != "ssp(slack=0)" || c.Workers != 2 || !l.removed.took {
		t.Errorf("%s, %d, %v", c.Policy, c.Workers, err)
	}
	l.removed.took = false
	if got := l.spec("policy", "asp"); got != "asp" || l.removed.took || l.lacks("y") {
		t.Errorf("%s, took %v", got, l.removed.took)
	}
	if !l.lacks("x") || !l.removed.took || (&Lab{}).lacks("x") {
		t.Error("who lacks it")
	}
}

// Folders of a study's runs tell those without a mechanism from its own.
func TestMutantsHaveFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for without, want := range map[string]string{"momentum": "a without momentum", "nothing of these runs": "a"} {
		l := &Lab{Runs: experiments.Options{Recipe: "r", Out: t.TempDir()}, removed: &removal{Mechanism: Mechanism{Name: without, Off: swap("optimizer", "^"+without+`\b.*`, "sgd")}}}
		r, err := l.run(t.Context(), "a", "optimizer=momentum", "model=logistic", "workers=1", "epochs=0", "steps=1")
		if err != nil || r.Name != want {
			t.Errorf("%+v, %v, want %q", r, err, want)
		}
	}
}

// What rules do in a step is judged apart from learning, in studies whose runs are too
// long for tests: each law holds, and turns red without its mechanism.
func TestLawsTurnRed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		study, mechanism string
		law              func(*Lab, *Report) error
	}{
		{"momentum-correction", "correction", (*Lab).afterFall},
		{"lars-range", "trust ratio", (*Lab).scaleFree},
		{"zero-gamma", "zero γ", func(l *Lab, r *Report) error { return l.identity(t.Context(), r) }},
		{"goyal-rule", "linear scaling", func(l *Lab, r *Report) error { return l.oneForMany(t.Context(), r) }},
		{"dc-asgd", "compensation", func(l *Lab, r *Report) error { return l.nearer(t.Context(), r, "c", "dcasgd(lambda=0.04)", 7) }},
		{"dc-asgd", "compensation", func(l *Lab, r *Report) error { return l.nearer(t.Context(), r, "a", "dcasgd_a(lambda=2,mu=0.95)", 7) }},
	} {
		dir := t.TempDir()
		s, _ := Studies.Proto(c.study)
		for _, without := range []string{"", c.mechanism} {
			l, r := &Lab{Without: without, Out: dir, Runs: experiments.Options{Recipe: c.study, Out: dir}}, &Report{}
			if err := l.without(s); err != nil {
				t.Fatal(err)
			}
			if err := c.law(l, r); err != nil {
				t.Fatal(err)
			}
			if len(r.Points) == 0 || (r.Failed() > 0) != (without != "") {
				t.Errorf("%s without %q: %d points, %d missed: %+v", c.study, without, len(r.Points), r.Failed(), r.Points)
			}
		}
	}
}
