package staleness_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/staleness"
)

// step is one gradient for an Amender of one parameter, and what must come out.
type step struct {
	g, now, sent float64
	past         staleness.Past
	want         float64
}

// The formulas, by hand.
func TestAmenders(t *testing.T) {
	late := staleness.Past{Delay: 1, Update: 1}
	for text, steps := range map[string][]step{
		"dcasgd(lambda=0.5)":         {{2, 3, 1, late, 2 + 0.5*4*2}, {2, 3, 3, late, 2}},
		"dcasgd_a(lambda=2,mu=0)":    {{-2, 3, 1, late, -2 + 4*2}},
		"dcasgd_a(lambda=2,mu=0.75)": {{2, 1, 0, late, 2 + 2/1.*4}, {2, 1, 1, late, 2}},
		"gap_bound(c=1)":             {{2, 3, 1, staleness.Past{Rate: 0.1}, 2}, {2, 3, 1, staleness.Past{Rate: 1}, 0.5}},
		"gap_aware(beta=0)": {{2, 1, 1, staleness.Past{Rate: 0.5}, 2}, {2, 3, 1, staleness.Past{Update: 1, Rate: 0.05}, 1}, // v = −4, C = 0.5·4
			{2, 3.2, 1.2, staleness.Past{Update: 2, Rate: 0.05}, 1}, {2, 3, 1, staleness.Past{Update: 3, Rate: 0.01}, 1}},
		"fasgd(gamma=0,beta=0)":            {{2, 0, 0, late, 200}, {-3, 0, 0, late, -300}},
		"adadelay_each(k=1)":               {{3, 0, 0, staleness.Past{}, 3. / 4}, {4, 0, 0, staleness.Past{}, 4. / 6}},
		"multi_asgd(gamma=0.5)":            {{2, 0, 0, staleness.Past{Worker: 1}, 2}, {2, 0, 0, staleness.Past{Worker: 1}, 3}, {2, 0, 0, staleness.Past{}, 2}},
		"dana_slim(gamma=0.5)":             {{2, 0, 0, late, 3}, {2, 0, 0, late, 3.5}},
		"implicit(beta=0.9)":               {{2, 0, 0, late, 2}, {2, 0, 0, late, 2 + 0.4*2}}, // two workers: μ = 0.9 − 0.5
		"dana_dc(gamma=0.5,lambda=2,mu=0)": {{2, 1, 0, late, 6}, {2, 1, 1, late, 5}},
	} {
		c := staleness.Correctors.MustParse(text).(staleness.Amending)
		a := c.Amender(1, 2)
		for i, s := range steps {
			g := []float32{float32(s.g)}
			a.Amend(g, []float32{float32(s.now)}, []float32{float32(s.sent)}, s.past)
			if math.Abs(float64(g[0])-s.want) > 1e-4*math.Abs(s.want) {
				t.Errorf("%s, gradient %d: %g, want %g", text, i, g[0], s.want)
			}
		}
	}
}

// A gap is in steps at full rate: ten late updates are ten steps, and one at a
// tenth of the rate.
func TestGapAwareAtATenthOfTheRate(t *testing.T) {
	a := staleness.Correctors.MustParse("gap_aware").(staleness.Amending).Amender(1, 1)
	w := []float32{0} // by version
	for update, rate := 0, 1.; update < 200; update++ {
		if update == 100 {
			rate = 0.1
		}
		g, late := []float32{1}, max(0, update-10)
		a.Amend(g, w[update:], w[late:late+1], staleness.Past{Delay: update - late, Update: update, Rate: rate})
		if gap := 1 / float64(g[0]); update == 99 && math.Abs(gap-11) > 1e-3 || update == 199 && math.Abs(gap-2) > 1e-3 {
			t.Errorf("update %d at rate %g: the gap is %.4f, want 11 at rate 1 and 2 at 0.1", update, rate, gap)
		}
		w = append(w, w[update]-float32(rate))
	}
}

// Published constants are the defaults.
func TestDefaultsArePublished(t *testing.T) {
	for _, text := range []string{
		"dcasgd(lambda=0.04)", "dcasgd_a(lambda=2,mu=0.95)", "gap_aware(beta=0.999)", "fasgd(gamma=0.9,beta=0.9)", "power(a=0.5)",
		"dana(gamma=0.9)", "dana_slim(gamma=0.9)", "dana_dc(gamma=0.9,lambda=2,mu=0.95)", "multi_asgd(gamma=0.9)",
	} {
		name, _, _ := strings.Cut(text, "(")
		if c := staleness.Correctors.MustParse(text); c != staleness.Correctors.MustParse(name) {
			t.Errorf("%s is not the default of %s", text, name)
		}
	}
}

// DANA sends where all momenta will have moved the parameters.
func TestDANALooksAhead(t *testing.T) {
	a := staleness.DANA{Gamma: 0.5}.Amender(1, 2)
	for w := range 2 {
		a.Amend([]float32{float32(w + 1)}, nil, nil, staleness.Past{Worker: w})
	}
	var ahead [1]float32
	a.(staleness.Ahead).Ahead(ahead[:], []float32{10}, 0.1)
	if want := float32(10 - 0.1*0.5*(1+2)); ahead[0] != want {
		t.Errorf("sends %g, want %g", ahead[0], want)
	}
}

// An Amender begun again from its state goes on as if nothing had been.
func TestAmenderState(t *testing.T) {
	for _, name := range staleness.Correctors.Names() {
		c, ok := staleness.Correctors.MustParse(name).(staleness.Amending)
		if !ok {
			continue
		}
		const n, workers = 3, 2
		amend := func(a staleness.Amender, i int) []float32 {
			g, now, sent := make([]float32, n), make([]float32, n), make([]float32, n)
			for k := range g {
				g[k], now[k], sent[k] = float32(math.Sin(float64(7*i+k))), float32(math.Cos(float64(i+k))), float32(math.Cos(float64(i+k-1)))
			}
			a.Amend(g, now, sent, staleness.Past{Delay: 1, Worker: i % workers, Update: i, Rate: 0.1})
			return g
		}
		a, b := c.Amender(n, workers), c.Amender(n, workers)
		for i := range 5 {
			amend(a, i)
		}
		for name, v := range a.State() {
			copy(b.State()[name], v)
		}
		for i := 5; i < 9; i++ {
			x, y := amend(a, i), amend(b, i)
			for k := range x {
				if x[k] != y[k] {
					t.Errorf("%s: %v, begun again %v", name, x, y)
				}
			}
		}
	}
}
