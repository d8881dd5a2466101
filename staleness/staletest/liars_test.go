package staletest_test

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

// liar is a policy that claims something else than it does.
type liar struct {
	staleness.Spec
	lie func(*staleness.PolicyTraits)
}

func (l liar) Traits(workers int) staleness.PolicyTraits {
	t := l.Spec.Traits(workers)
	l.lie(&t)
	return t
}

// Each claim of a policy is proved: made without cause, or left out, it is found. The
// lies that would let a run hang or go astray are found before it, too.
func TestLyingPolicies(t *testing.T) {
	type traits = staleness.PolicyTraits
	for _, c := range []struct {
		policy string
		lie    func(*traits)
		want   string
		probed bool
	}{
		{"backup", func(t *traits) { t.Synchronous = true }, "claims Synchronous, with", true},
		{"ssp", func(t *traits) { t.Synchronous = true }, "claims Synchronous, with", true},
		{"bsp", func(t *traits) { t.Synchronous = false }, "; claim Synchronous", false},
		{"asp", func(t *traits) { t.PerUpdate = 2 }, "PerUpdate says 2", true},
		{"softsync", func(t *traits) { t.PerUpdate = 1 }, "PerUpdate says 1", true},
		{"adasync", func(t *traits) { t.PerUpdate++ }, "PerUpdate says", true},
		{"asp", func(t *traits) { t.PerUpdate = 0 }, "want at least 1", true},
		{"kasync", func(t *traits) { t.Waits = false }, "; claim Waits", true},
		{"ssp", func(t *traits) { t.Waits = false }, "; claim Waits", true},
		{"adasync(of=ksync)", func(t *traits) { t.Waits = false }, "; claim Waits", true},
		{"softsync", func(t *traits) { t.Waits = true }, "claims Waits, and no", false},
		{"bounded(max=1)", func(t *traits) { t.Drops = false }, "; claim Drops", true},
		{"kbatchsync", func(t *traits) { t.Drops = false }, "; claim Drops", true},
		{"asp", func(t *traits) { t.Drops = true }, "claims Drops, and no", false},
		{"ksync", func(t *traits) { t.Voids = false }, "; claim Voids", true},
		{"dropslowest(share=0.3)", func(t *traits) { t.Voids = false }, "; claim Voids", true},
		{"backup", func(t *traits) { t.Voids = true }, "claims Voids, and no", false},
		{"asp", func(t *traits) { t.Voids = true }, "late is applied", true},
		{"ssp", func(t *traits) { t.Paced, t.Lead = false, 0 }, "; claim Paced", false},
		{"asp", func(t *traits) { t.Paced, t.Lead = true, 4 }, "claims Paced with Lead 4", false},
		{"ssp", func(t *traits) { t.Lead++ }, "claims Paced with Lead 4", false},
		{"ssp", func(t *traits) { t.Lead-- }, "claims Paced with Lead 2", false},
		{"asp", func(t *traits) { t.Lead = 1 }, "0 without Paced", false},
		{"adasync", func(t *traits) { t.ByLoss = false }, "PerUpdate says 1", true},
		{"adasync(of=kasync)", func(t *traits) { t.ByLoss = false }, "PerUpdate says 1", true},
		{"softsync", func(t *traits) { t.ByLoss = true }, "claims ByLoss, and", false},
	} {
		l := liar{staleness.Policies.MustParse(c.policy), c.lie}
		if err := staletest.Traits(l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", c.policy, err, c.want)
		}
		if err := staletest.Probe(l, 6); (err != nil) != c.probed {
			t.Errorf("%s that lies (%s), before a run: %v", c.policy, c.want, err)
		}
	}
	l := liar{slackByLoss{}, func(t *traits) { t.ByLoss = false }}
	if err := staletest.Traits(l); err == nil || !strings.Contains(err.Error(), "; claim ByLoss") {
		t.Errorf("a policy that looks at the loss and does not say so: %v", err)
	}
	if err := staletest.Traits(slackByLoss{}); err != nil {
		t.Error(err)
	}
}

// slackByLoss is ssp whose slack grows as the loss falls.
type slackByLoss struct{}

func (slackByLoss) New(workers int) (staleness.Policy, error) {
	p, err := staleness.SSP{Slack: 1}.New(workers)
	return loosening{p}, err
}

func (slackByLoss) Traits(int) staleness.PolicyTraits {
	return staleness.PolicyTraits{PerUpdate: 1, Waits: true, ByLoss: true, Paced: true, Lead: 1}
}

type loosening struct{ staleness.Policy }

func (l loosening) Release(v staleness.View, w int) bool {
	return l.Policy.Release(v, w) || v.Loss > 0 && v.Loss < 0.5*v.First && v.Pushed[w]-v.MinClock() <= 3
}

// What every registered policy claims holds before a run of any size.
func TestProbe(t *testing.T) {
	for _, name := range staleness.Policies.Names() {
		for _, workers := range []int{1, 2, 5, 32, 1000} {
			spec := staleness.Policies.MustParse(name)
			if err := staletest.Probe(spec, workers); err != nil {
				t.Errorf("%d workers: %v", workers, err)
			}
		}
	}
	if err := staletest.Probe(staleness.Backup{B: 70}, 100); err != nil {
		t.Error(err)
	}
	for name, stuck := range map[string]broken{
		"answers nobody":   {always(staleness.Apply), func(staleness.View) bool { return true }, func(staleness.View, int) bool { return false }},
		"never flushes":    {always(staleness.Hold), func(staleness.View) bool { return false }, func(v staleness.View, w int) bool { return v.Held[w] == 0 }},
		"drops everything": {always(staleness.Drop), func(staleness.View) bool { return true }, func(staleness.View, int) bool { return true }},
	} {
		if staletest.Probe(stuck, 3) == nil {
			t.Errorf("a policy that %s was taken", name)
		}
	}
}

func BenchmarkProbe(b *testing.B) {
	for _, name := range []string{"bsp", "asp", "ssp", "kbatchsync"} {
		b.Run(name, func(b *testing.B) {
			spec := staleness.Policies.MustParse(name)
			for b.Loop() {
				if err := staletest.Probe(spec, 32); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// lying is a corrector that claims something else than it does.
type lying struct {
	staleness.Corrector
	lie func(*staleness.CorrectorTraits)
}

func (l lying) Traits() staleness.CorrectorTraits {
	t := l.Corrector.Traits()
	l.lie(&t)
	return t
}

// amends is one that has an Amender.
type amends struct{ lying }

func (a amends) Amender(n, workers int) staleness.Amender {
	return a.Corrector.(staleness.Amending).Amender(n, workers)
}

// Each claim of a corrector is proved: made without cause, or left out, it is found.
func TestLyingCorrectors(t *testing.T) {
	type traits = staleness.CorrectorTraits
	for _, c := range []struct {
		corrector string
		lie       func(*traits)
		want      string
		probed    bool
	}{
		{"none", func(t *traits) { t.None = false }, "; claim None", false},
		{"mean", func(t *traits) { t.None = true }, "claims None, but", false},
		{"adadelay", func(t *traits) { t.None = true }, "claims None, but", false},
		{"dcasgd", func(t *traits) { t.None = true }, "claims None, and Amends", false},
		{"none", func(t *traits) { t.None, t.Amends = false, true }, "claims Amends: true", true},
		{"dcasgd", func(t *traits) { *t = traits{} }, "claims Amends: false", true},
		{"alpha_tau", func(t *traits) { t.Momentum = true }, "not that it Amends", false},
		{"multi_asgd", func(t *traits) { t.Momentum = false }, "; claim Momentum", true},
		{"dana_slim", func(t *traits) { t.Momentum = false }, "; claim Momentum", true},
		{"implicit", func(t *traits) { t.Momentum = false }, "; claim Momentum", true},
		{"fasgd", func(t *traits) { t.Momentum = true }, "claims Momentum, but", true},
		{"dcasgd_a", func(t *traits) { t.Compares = false }, "; claim Compares", true},
		{"gap_aware", func(t *traits) { t.Compares = false }, "; claim Compares", true},
		{"gap_bound", func(t *traits) { t.Compares = false }, "; claim Compares", true},
		{"multi_asgd", func(t *traits) { t.Compares = true }, "claims Compares, but", true},
		{"dana", func(t *traits) { t.Ahead = false }, "; claim Ahead", false},
		{"multi_asgd", func(t *traits) { t.Ahead = true }, "does not implement it", false},
		{"adadelay_each", func(t *traits) { t.AtWorker = true }, "which a worker does not know", false},
		{"dcasgd", func(t *traits) { t.AtWorker = true }, "only a server can do", false},
		{"dana", func(t *traits) { t.AtWorker = true }, "only a server can do", false},
	} {
		l := lying{staleness.Correctors.MustParse(c.corrector), c.lie}
		var x staleness.Corrector = l
		if _, ok := l.Corrector.(staleness.Amending); ok {
			x = amends{l}
		}
		if err := staletest.Claims(x); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", c.corrector, err, c.want)
		}
		if err := staletest.ProbeCorrector(x); (err != nil) != c.probed {
			t.Errorf("%s that lies (%s), before a run: %v", c.corrector, c.want, err)
		}
	}
	still := amends{lying{idle{}, func(*traits) {}}}
	if err := staletest.Claims(still); err == nil || !strings.Contains(err.Error(), "leaves every gradient as it is") {
		t.Errorf("an Amender that does nothing: %v", err)
	}
}

// idle amends nothing.
type idle struct{ staleness.None }

func (idle) Traits() staleness.CorrectorTraits         { return staleness.CorrectorTraits{Amends: true} }
func (idle) Amender(int, int) staleness.Amender        { return idle{} }
func (idle) Amend(_, _, _ []float32, _ staleness.Past) {}
func (idle) State() map[string][]float32               { return nil }
