package staleness_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

func TestPolicies(t *testing.T) { staletest.Policies(t) }

// The suite sees defaults only.
func TestPolicyOptions(t *testing.T) {
	for _, text := range []string{"ssp(slack=0)", "ssp(slack=1)", "softsync(n=2)", "softsync(n=100)", "kasync(k=1)", "kasync(k=100)", "kbatchasync(k=1)",
		"kbatchasync(k=100)", "backup(b=0)", "ssp(slack=2)", "ssp(slack=4)", "ksync(k=1)", "ksync(k=100)", "kbatchsync(k=1)", "kbatchsync(k=20)", "dropslowest(share=0)",
		"dropslowest(share=0.5)", "adasync(of=ksync)", "adasync(k=3,of=kasync)", "adasync(of=kbatchsync)", "bounded(max=0)", "bounded(max=1)"} {
		t.Run(text, func(t *testing.T) { staletest.Policy(t, staleness.Policies.MustParse(text)) })
	}
}

func sim(t *testing.T, text string, workers int, law staletest.Law) *staletest.Sim {
	t.Helper()
	p, err := staleness.Policies.MustParse(text).New(workers)
	if err != nil {
		t.Fatal(err)
	}
	return staletest.NewSim(p, workers, 1, law)
}

// Whatever the law, n-softsync with c = workers/n has mean staleness
// (workers−1)/c: 0.97, 14.5 and 29 for 30 workers at n = 1, 15 and 30. How far
// it spreads depends on the law: the histograms of Gupta et al. 2016, with
// nothing beyond 2n, need even workers.
func TestMeanStaleness(t *testing.T) {
	const workers = 30
	for _, c := range []struct {
		policy string
		mean   float64
		most   int // with even workers
	}{
		{"softsync(n=1)", 29. / 30, 2}, {"softsync(n=15)", 29. / 2, 30}, {"softsync(n=30)", 29, 60}, {"asp", 29, 60},
	} {
		for name, law := range map[string]staletest.Law{"even": staletest.Even, "exponential": staletest.Exponential} {
			s := sim(t, c.policy, workers, law)
			sum, n, most := 0, 0, 0
			s.OnUpdate = func(pushes []staletest.Push) {
				for _, p := range pushes {
					sum, n, most = sum+p.Delay, n+1, max(most, p.Delay)
				}
			}
			if err := s.Run(15000); err != nil {
				t.Fatal(err)
			}
			if mean := float64(sum) / float64(n); math.Abs(mean-c.mean) > 0.02*c.mean+0.01 {
				t.Errorf("%s, %s workers: mean staleness %.3f, want %.3f", c.policy, name, mean, c.mean)
			}
			if name == "even" && most > c.most {
				t.Errorf("%s, even workers: staleness up to %d, want at most %d", c.policy, most, c.most)
			}
		}
	}
}

// Dutta et al. 2018, sections 3 and 4: the mean time of an update of 8 workers
// whose compute times are exponential with mean 1.
func TestTimeOfUpdate(t *testing.T) {
	const workers = 8
	updates, tolerance := 60000, 0.01
	if !patience.Long {
		updates, tolerance = 4000, 0.04
	}
	harmonic := func(n int) (h float64) {
		for i := 1; i <= n; i++ {
			h += 1 / float64(i)
		}
		return h
	}
	for _, k := range []int{1, 2, 4, 6, 8} {
		for text, want := range map[string]float64{
			fmt.Sprintf("ksync(k=%d)", k):       harmonic(workers) - harmonic(workers-k),
			fmt.Sprintf("kbatchsync(k=%d)", k):  float64(k) / workers,
			fmt.Sprintf("kasync(k=%d)", k):      harmonic(workers) - harmonic(workers-k),
			fmt.Sprintf("kbatchasync(k=%d)", k): float64(k) / workers,
		} {
			s := sim(t, text, workers, staletest.Exponential)
			for s.View.Version < updates {
				if err := s.Step(); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Now() / float64(updates); math.Abs(got-want) > tolerance*want {
				t.Errorf("%s: an update takes %.4f, want %.4f", text, got, want)
			}
		}
	}
}

// k grows with the root of the loss's fall, up to all workers.
func TestAdaSync(t *testing.T) {
	const workers = 8
	for loss, want := range map[float64]int{0: 2, 1: 2, 0.5: 3, 0.25: 4, 0.06: 8, 0.001: 8} {
		s := sim(t, "adasync(k=2,of=kbatchasync)", workers, staletest.Exponential)
		s.View.First, s.View.Loss = 1, loss
		s.OnUpdate = func(pushes []staletest.Push) {
			if len(pushes) != want {
				t.Fatalf("loss %g: an update from %d gradients, want %d", loss, len(pushes), want)
			}
		}
		if err := s.Run(100); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing that a barrier with backups applies is late, and each update has
// workers − b gradients, of different workers.
func TestBackup(t *testing.T) {
	s := sim(t, "backup(b=2)", 6, staletest.Straggler)
	s.OnUpdate = func(pushes []staletest.Push) {
		for i, p := range pushes {
			if p.Delay != 0 || len(pushes) != 4 || i > 0 && p.Worker == pushes[i-1].Worker {
				t.Fatalf("an update from %+v", pushes)
			}
		}
	}
	if err := s.Run(3000); err != nil {
		t.Fatal(err)
	}
	if s.Dropped == 0 {
		t.Error("a straggler was never late")
	}
}

func TestBounded(t *testing.T) {
	s := sim(t, "bounded(max=3)", 6, staletest.Exponential)
	worst := 0
	s.OnUpdate = func(pushes []staletest.Push) { worst = max(worst, pushes[0].Delay) }
	if err := s.Run(3000); err != nil {
		t.Fatal(err)
	}
	if worst != 3 || s.Dropped == 0 {
		t.Errorf("staleness up to %d, %d dropped", worst, s.Dropped)
	}
}

// c = max(1, ⌊workers/n⌋).
func TestSoftsyncCount(t *testing.T) {
	for _, c := range []struct{ workers, n, want int }{
		{30, 1, 30}, {30, 4, 7}, {30, 15, 2}, {30, 16, 1}, {30, 30, 1}, {30, 31, 1}, {1, 1, 1},
	} {
		s := sim(t, fmt.Sprintf("softsync(n=%d)", c.n), c.workers, staletest.Exponential)
		s.OnUpdate = func(pushes []staletest.Push) {
			if len(pushes) != c.want {
				t.Fatalf("%d workers, n = %d: %d pushes in an update, want %d", c.workers, c.n, len(pushes), c.want)
			}
		}
		if err := s.Run(200); err != nil {
			t.Fatal(err)
		}
	}
}

// With one worker every policy is plain SGD.
func TestAlone(t *testing.T) {
	for _, name := range staleness.Policies.Names() {
		s := sim(t, name, 1, staletest.Exponential)
		s.OnUpdate = func(pushes []staletest.Push) {
			if len(pushes) != 1 || pushes[0].Delay != 0 {
				t.Errorf("%s: an update from %+v", name, pushes)
			}
		}
		if err := s.Run(20); err != nil || s.View.Version != 20 {
			t.Errorf("%s: version %d after 20 pushes: %v", name, s.View.Version, err)
		}
	}
}

func TestCorrectors(t *testing.T) {
	for text, want := range map[string][]float64{ // by delay
		"none":                 {1, 1, 1, 1, 1},
		"alpha_tau":            {1, 1, 1. / 2, 1. / 3, 1. / 4},
		"power(a=1)":           {1, 1. / 2, 1. / 3, 1. / 4},
		"power(a=2)":           {1, 1. / 4, 1. / 9},
		"exponential(rho=0.5)": {1, math.Exp(-0.5), math.Exp(-1)},
		"adadelay(c=2)":        {1, 1. / 3, 1 / (1 + 2*math.Sqrt2)},
	} {
		c := staleness.Correctors.MustParse(text)
		for delay, scale := range want {
			if got := c.Scale(staleness.Past{Delay: delay}); got != scale {
				t.Errorf("%s: scale %v at delay %d, want %v", text, got, delay, scale)
			}
		}
	}
	for mean, want := range map[float64]float64{0: 1, 0.5: 1, 1: 1, 4: 0.25} {
		if got := (staleness.Mean{}).Scale(staleness.Past{Delay: 9, Mean: mean}); got != want {
			t.Errorf("mean: scale %v at mean staleness %v, want %v", got, mean, want)
		}
	}
	if got, want := (staleness.AdaDelay{C: 1}).Scale(staleness.Past{Delay: 9, Update: 16}), 1./6; got != want {
		t.Errorf("adadelay: scale %v at update 16 and delay 9, want %v", got, want)
	}
	for _, name := range staleness.Correctors.Names() {
		c := staleness.Correctors.MustParse(name)
		for delay := range 1000 {
			if x := c.Scale(staleness.Past{Delay: delay, Worker: delay % 7}); !(x >= 0) || math.IsInf(x, 0) {
				t.Fatalf("%s: scale %v at delay %d", name, x, delay)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"ssp(slack=-1)":        `"slack" is -1; want at least 0`,
		"ssp(slack=many)":      `want a whole number`,
		"softsync(n=0)":        `"n" is 0; want at least 1`,
		"kasync(k=0)":          `"k" is 0; want at least 1`,
		"kbatchasync(k=0)":     `"k" is 0; want at least 1`,
		"backup(b=-1)":         `"b" is -1; want at least 0`,
		"bounded(max=-1)":      `"max" is -1; want at least 0`,
		"ksync(k=0)":           `"k" is 0; want at least 1`,
		"kbatchsync(k=0)":      `"k" is 0; want at least 1`,
		"dropslowest(share=1)": `"share" is 1; want at least 0 and below 1`,
		"adasync(of=bsp)":      `"of" is "bsp"; want ksync`,
		"ssp(stack=1)":         `did you mean "slack"`,
		"bsp(1)":               `bsp takes 0 argument(s)`,
	} {
		if _, err := staleness.Policies.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
	for _, s := range []staleness.Spec{staleness.SSP{Slack: -1}, staleness.Softsync{}} {
		if p, err := s.New(2); err == nil || p != nil {
			t.Errorf("%#v was taken", s)
		}
	}
	if p, err := (staleness.Backup{B: 4}).New(4); err == nil || p != nil {
		t.Error("a barrier of nothing but spare workers was taken")
	}
	for _, text := range []string{"power(a=0)", "exponential(rho=-1)", "adadelay(c=0)"} {
		if _, err := staleness.Correctors.Parse(text); err == nil || !strings.Contains(err.Error(), "want a number above 0") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p, err := (staleness.BSP{}).New(0); err == nil || p != nil {
		t.Error("a barrier over nobody was taken")
	}
}

func TestView(t *testing.T) {
	v := staleness.View{Live: []bool{false, true, true}, Pushed: []int{1, 5, 3}, Held: []int{1, 0, 2}}
	if v.NumLive() != 2 || v.NumHeld() != 3 || v.MinClock() != 3 {
		t.Errorf("live %d, held %d, least clock %d", v.NumLive(), v.NumHeld(), v.MinClock())
	}
	if none := (staleness.View{Live: []bool{false}, Pushed: []int{4}}); none.MinClock() != 0 {
		t.Errorf("least clock of nobody is %d", none.MinClock())
	}
}
