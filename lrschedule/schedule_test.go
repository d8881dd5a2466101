package lrschedule_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/lrschedule"
)

// imagenet is the run of Goyal et al. 2017 with batch kn.
func imagenet(batch int) lrschedule.Run {
	perEpoch := 1281167 / float64(batch)
	return lrschedule.Run{Batch: batch, StepsPerEpoch: perEpoch, Epochs: 90, Steps: int(90 * perEpoch)}
}

// at is the progress of r after n updates.
func at(r lrschedule.Run, n int) lrschedule.Progress {
	return lrschedule.Progress{
		Step: n, Total: r.Steps, Epoch: float64(n) / r.StepsPerEpoch, Samples: uint64(n) * uint64(r.Batch),
	}
}

// epoch is the progress of r after e epochs.
func epoch(r lrschedule.Run, e float64) lrschedule.Progress {
	p := at(r, int(math.Round(e*r.StepsPerEpoch)))
	p.Epoch = e
	return p
}

func parse(t *testing.T, text string, r lrschedule.Run) lrschedule.Schedule {
	t.Helper()
	s, err := lrschedule.Specs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every registered schedule, whatever the run: finite, not negative, the same
// when asked again, and the same text after reading it back.
func TestSpecs(t *testing.T) {
	for _, name := range lrschedule.Specs.Names() {
		t.Run(name, func(t *testing.T) {
			proto, _ := lrschedule.Specs.Proto(name)
			text := lrschedule.Specs.Spec(proto)
			back, err := lrschedule.Specs.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if again := lrschedule.Specs.Spec(back); again != text {
				t.Errorf("%s reads back as %s", text, again)
			}
			for _, batch := range []int{1, 64, 256, 8192} {
				r := imagenet(batch)
				f, err := proto.New(r)
				if err != nil {
					t.Fatal(err)
				}
				twin, err := back.New(r)
				if err != nil {
					t.Fatal(err)
				}
				progress := []lrschedule.Progress{{}, {Step: 1 << 30, Epoch: 1e9}, {Total: 10, Step: 11, Epoch: 91}}
				for n := 0; n <= r.Steps+10; n += 1 + r.Steps/500 {
					progress = append(progress, at(r, n))
				}
				for _, p := range progress {
					lr := f(p)
					if !(lr >= 0) || math.IsInf(lr, 0) {
						t.Fatalf("batch %d, %+v: rate %v", batch, p, lr)
					}
					if f(p) != lr || twin(p) != lr {
						t.Fatalf("batch %d, %+v: %v, then %v, from its text %v", batch, p, lr, f(p), twin(p))
					}
				}
			}
		})
	}
}

// A schedule claims that its rates do not depend on how many updates are planned
// if, and only if, they do not.
func TestUnplanned(t *testing.T) {
	texts := lrschedule.Specs.Names()
	for _, inner := range lrschedule.Specs.Names() {
		texts = append(texts, "linear("+inner+")", "sqrt("+inner+")", "warmup("+inner+",epochs=2)", "warmup(linear("+inner+"),steps=7,from=0.01)")
	}
	for _, text := range texts {
		spec, err := lrschedule.Specs.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		differs := ""
		whole := imagenet(8192)
		want := parse(t, text, whole)
		for _, share := range []float64{0.001, 0.3, 0.5, 2} {
			part := whole
			part.Steps, part.Epochs = int(share*float64(whole.Steps)), share*whole.Epochs
			got := parse(t, text, part)
			for n := 0; n < min(part.Steps, whole.Steps); n += 1 + whole.Steps/500 {
				if a, b := got(at(part, n)), want(at(whole, n)); a != b {
					differs = fmt.Sprintf("update %d of %d has rate %v, of %d %v", n, part.Steps, a, whole.Steps, b)
				}
			}
		}
		if claim := lrschedule.IsUnplanned(spec); claim != (differs == "") {
			t.Errorf("%s claims %v; %s", text, claim, differs)
		}
	}
}

func TestValues(t *testing.T) {
	r := lrschedule.Run{Batch: 1024, StepsPerEpoch: 10, Epochs: 90, Steps: 900}
	var tried []lrschedule.Spec
	for text, want := range map[string]map[float64]float64{ // epoch → rate
		"constant(lr=0.3)":                                 {0: 0.3, 45: 0.3, 100: 0.3},
		"step":                                             {0: 0.1, 29.9: 0.1, 30: 0.01, 60: 0.001, 79.9: 0.001, 80: 0.0001},
		"step(1,at=[2],factor=0.5)":                        {0: 1, 1.9: 1, 2: 0.5},
		"step(1,at=[0,0.5],factor=0.5)":                    {0: 0.5, 0.5: 0.25},
		"step(lr=1,at=[],factor=0.5)":                      {0: 1, 90: 1},
		"poly(lr=1,power=1)":                               {0: 1, 45: 0.5, 90: 0, 95: 0},
		"poly(lr=1,end=0.2)":                               {0: 1, 45: 0.4, 90: 0.2, 95: 0.2},
		"cosine(lr=1,end=0.2)":                             {0: 1, 22.5: 0.6 + 0.4*math.Sqrt2/2, 45: 0.6, 90: 0.2, 95: 0.2},
		"linear(constant(lr=0.1))":                         {0: 0.4, 90: 0.4},
		"sqrt(constant(lr=0.1))":                           {0: 0.2, 90: 0.2},
		"sqrt(constant,reference=1024)":                    {0: 0.1},
		"warmup(constant(lr=1))":                           {0: 0, 1: 0.2, 2.5: 0.5, 5: 1, 50: 1},
		"warmup(constant(lr=1),10,0,.5)":                   {0: 0.5, 5: 0.75, 10: 1},
		"warmup(constant(lr=1),steps=4)":                   {0: 0, 0.1: 0.25, 0.2: 0.5, 0.4: 1, 3: 1},
		"warmup(constant(lr=1),from=3)":                    {0: 1, 2: 1, 5: 1, 6: 1},
		"warmup(constant(lr=1),epochs=0,from=0.5)":         {0: 1, 1: 1},
		"warmup(step(lr=1,at=[3]),epochs=6)":               {2: 2. / 6, 4: 0.1 * 4 / 6, 6: 0.1},
		"linear(warmup(constant(lr=1)),reference=512)":     {0: 0, 2.5: 1, 5: 2},
		"warmup(constant(lr=1),from=0.2,constant=true)":    {0: 0.2, 4.9: 0.2, 5: 1},
		"warmup(step(lr=1,at=[2]),after=true)":             {0: 0, 2.5: 0.5, 5: 1, 6.9: 1, 7: 0.1},
		"warmup(poly(lr=1,power=1),epochs=10,after=true)":  {5: 0.5, 10: 1, 50: 0.5, 90: 0, 99: 0},
		"exponential":                                      {0: 0.045, 2: 0.045 * 0.94, 3: 0.045 * math.Pow(0.94, 1.5)},
		"exponential(lr=1,factor=0.5,every=3,stairs=true)": {0: 1, 2.9: 1, 3: 0.5, 8.9: 0.25},
		"piecewise(lr=[3,1,2],at=[1,4])":                   {0: 3, 0.9: 3, 1: 1, 3.9: 1, 4: 2, 90: 2},
		"piecewise(lr=[3],at=[])":                          {0: 3, 90: 3},
		"restarts(lr=1,end=0.5,first=10,mult=2)":           {0: 1, 5: 0.75, 10: 1, 20: 0.75, 30: 1, 50: 0.75, 70: 1},
		"restarts(lr=1,first=10,mult=1,fall=0.5)":          {0: 1, 10: 0.5, 15: 0.25, 20: 0.25},
		"cyclic(low=1,high=3,up=2,down=4,fall=0.5)":        {0: 1, 1: 2, 2: 3, 4: 2, 6: 1, 8: 2, 14: 1.5},
		"trapezoid(lr=1,up=0.1,down=0.2)":                  {0: 0, 4.5: 0.5, 9: 1, 72: 1, 81: 0.5, 90: 0, 95: 0},
		"trapezoid(lr=1,up=0,down=0.4,end=0.2,shape=sqrt)": {0: 1, 54: 1, 63: 0.6, 90: 0.2},
		"trapezoid(lr=1,up=0.5,down=0.5,from=0.2)":         {0: 0.2, 22.5: 0.6, 45: 1, 67.5: 0.5},
		"akiba":                        {0: 0.2, 39.9: 0.2, 40: 0.03, 70: 0.004, 85: 0.0004},
		"akiba(epochs=9)":              {3.9: 0.2, 4: 0.03, 7: 0.004, 8.5: 0.0004},
		"mlperf(lr=10,warmup=5,end=0)": {0: 0, 2.5: 5, 5: 10, 47.5: 10 * math.Pow(1-425./851, 2)},
		"goyal":                        {0: 0.1, 2.5: 0.25, 5: 0.4, 29.9: 0.4, 30: 0.04, 60: 0.004, 80: 0.0004},
		"goyal(base=0.2,warmup=2,at=[4],factor=0.5)":          {0: 0.2, 1: 0.5, 2: 0.8, 4: 0.4},
		"warmup(linear(warmup(step(lr=0.1))),1,from=0.00001)": {0: 0, 5: 0.4},
		"akiba(base=0.3,reference=512)":                       {0: 0.3, 40: 0.045, 70: 0.006, 85: 0.0006},
		"cyclic(low=1,high=3,up=2,down=3)":                    {0: 1, 1: 2, 2: 3, 3.5: 2, 5: 1, 7: 3},
		"goyal(reference=128)":                                {0: 0.1, 2.5: 0.45, 5: 0.8, 30: 0.08},
		"mlperf(lr=4,warmup=10,end=0.5,power=3)":              {5: 2, 10: 4, 50: 0.5 + 3.5*math.Pow(1-400./801, 3)},
		"restarts(lr=1,first=20)":                             {0: 1, 10: 0.5, 20: 1, 40: 0.5, 60: 1},
		"sqrt(cosine(lr=0.1))":                                {0: 0.2, 45: 0.1},
	} {
		tried = append(tried, lrschedule.Specs.MustParse(text))
		f := parse(t, text, r)
		for e, lr := range want {
			if got := f(epoch(r, e)); math.Abs(got-lr) > 1e-12 {
				t.Errorf("%s at epoch %v: %v, want %v", text, e, got, lr)
			}
		}
	}
	for text := range pytorch(t) {
		tried = append(tried, lrschedule.Specs.MustParse(text))
	}
	for _, what := range lrschedule.Specs.Untried(tried...) {
		t.Errorf("schedule %s: no rate of it is in the table or from PyTorch", what)
	}
}

// probe is a schedule that keeps the run it is made for and the last progress.
type probe struct {
	run *lrschedule.Run
	at  *lrschedule.Progress
}

func (p probe) New(r lrschedule.Run) (lrschedule.Schedule, error) {
	*p.run = r
	return func(at lrschedule.Progress) float64 { *p.at = at; return 1 }, nil
}

// A schedule behind a warm-up sees a run of the epochs and updates that are left, and a
// progress that begins at 0 with the first update behind the warm-up. Epochs end between
// updates.
func TestWarmupBeginsWhatIsAfterAnew(t *testing.T) {
	r := lrschedule.Run{Batch: 100, StepsPerEpoch: 7.7, Epochs: 20, Steps: 154}
	for _, c := range []struct {
		warm   lrschedule.Warmup
		steps  int
		epochs float64
	}{
		{lrschedule.Warmup{Steps: 12}, 12, 12 / 7.7},
		{lrschedule.Warmup{Epochs: 2}, 15, 2},    // 15.4 updates
		{lrschedule.Warmup{Epochs: 3}, 23, 3},    // 23.1
		{lrschedule.Warmup{Epochs: 9}, 69, 9},    // 69.3
		{lrschedule.Warmup{Epochs: 0.1}, 1, 0.1}, // 0.77
		{lrschedule.Warmup{}, 0, 0},
	} {
		var run lrschedule.Run
		var seen lrschedule.Progress
		c.warm.Then, c.warm.After, c.warm.From = probe{&run, &seen}, true, 0.5
		f, err := c.warm.New(r)
		if err != nil {
			t.Fatal(err)
		}
		left := r
		left.Steps, left.Epochs = r.Steps-c.steps, r.Epochs-c.epochs
		if run != left {
			t.Errorf("%+v makes a schedule for %+v, want %+v", c.warm, run, left)
		}
		for n := range r.Steps + 1 {
			p := at(r, n)
			rate := f(p)
			done := max(0, n-c.steps)
			want := lrschedule.Progress{Step: done, Total: left.Steps, Epoch: max(0, p.Epoch-c.epochs), Samples: uint64(done) * uint64(r.Batch)}
			if seen != want {
				t.Fatalf("%+v, update %d: the schedule behind it sees %+v, want %+v", c.warm, n, seen, want)
			}
			over := p.Epoch >= c.warm.Epochs
			if c.warm.Steps > 0 {
				over = n >= c.warm.Steps
			}
			if over != (rate == 1) {
				t.Fatalf("%+v, update %d: rate %v", c.warm, n, rate)
			}
		}
	}
}

// The recipe is its parts, bit for bit, at every update; and it gives the rates
// of the paper's table 1.
func TestGoyal(t *testing.T) {
	const composed = "warmup(linear(step(lr=0.1,at=[30,60,80],factor=0.1),reference=256),epochs=5,from=0.1)"
	for _, batch := range []int{32, 256, 1000, 8192, 65536} {
		r := imagenet(batch)
		goyal, parts := parse(t, "goyal", r), parse(t, composed, r)
		for n := 0; n < r.Steps; n += 1 + r.Steps/2000 {
			if a, b := goyal(at(r, n)), parts(at(r, n)); a != b {
				t.Fatalf("batch %d, update %d: goyal %v, its parts %v", batch, n, a, b)
			}
		}
	}
	r := imagenet(8192)
	f := parse(t, "goyal", r)
	for e, want := range map[float64]float64{0: 0.1, 2.5: 1.65, 5: 3.2, 30: 0.32, 60: 0.032, 80: 0.0032} {
		if got := f(epoch(r, e)); math.Abs(got-want) > 1e-12 {
			t.Errorf("8k images, epoch %v: %v, want %v", e, got, want)
		}
	}
}

func TestWarmupRises(t *testing.T) {
	for _, text := range []string{
		"warmup", "goyal", "warmup(linear(constant),from=0.1)", "warmup(sqrt(step),steps=1000)", "warmup(constant(lr=0.1),from=0.1)",
	} {
		for _, batch := range []int{32, 256, 1000, 8192} {
			r := imagenet(batch)
			f := parse(t, text, r)
			last := 0.0
			for n := 0; float64(n) < 6*r.StepsPerEpoch; n += 1 + int(r.StepsPerEpoch/100) {
				lr := f(at(r, n))
				if lr < last {
					t.Fatalf("%s, batch %d: falls from %v to %v at update %d", text, batch, last, lr, n)
				}
				last = lr
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	r := imagenet(256)
	for text, want := range map[string]string{
		"constant(lr=-1)":                           `"lr" is -1; want a rate of at least 0`,
		"constant(lr=Inf)":                          `"lr" is +Inf`,
		"step(at=[3,2])":                            `"at" is [3 2]; want ascending epochs`,
		"step(at=[-1])":                             `"at" is [-1]`,
		"step(factor=-1)":                           `"factor" is -1`,
		"step(factor=1e200)":                        `no longer finite`,
		"poly(power=0)":                             `"power" is 0; want more than 0`,
		"poly(end=-1)":                              `"end" is -1`,
		"cosine(end=-1)":                            `"end" is -1`,
		"warmup(epochs=-1)":                         `"epochs" is -1`,
		"warmup(steps=-1)":                          `"steps" is -1`,
		"warmup(from=-1)":                           `"from" is -1`,
		"warmup(step(lr=-1))":                       `"lr" is -1`,
		"linear(reference=0)":                       `"reference" is 0; want at least 1`,
		"sqrt(reference=0)":                         `"reference" is 0`,
		"goyal(base=-1)":                            `"base" is -1`,
		"goyal(warmup=-1)":                          `"warmup" is -1`,
		"goyal(at=[2,2])":                           `"at" is [2 2]`,
		"goyal(reference=0)":                        `"reference" is 0`,
		"exponential(factor=0)":                     `"factor" is 0; want more than 0 and at most 1`,
		"exponential(every=0)":                      `"every" is 0; want more than 0`,
		"piecewise(lr=[1],at=[1])":                  `"lr" has 1 rates for the 1 epochs of option "at"; want one rate more`,
		"piecewise(lr=[1,2,3],at=[2,1])":            `want ascending epochs`,
		"piecewise(lr=[1,-2],at=[2])":               `"lr" is -2`,
		"restarts(mult=0)":                          `"mult" is 0; want at least 1`,
		"restarts(first=0)":                         `"first" is 0`,
		"restarts(fall=2)":                          `"fall" is 2`,
		"cyclic(low=1,high=0.5)":                    `"low" is 1; want at most high`,
		"cyclic(up=0)":                              `"up" is 0`,
		"cyclic(down=0)":                            `"down" is 0`,
		"onecycle(up=1)":                            `"up" is 1; want more than 0 and less than 1`,
		"onecycle(up=0.6,three=true)":               `at most 0.5 with three=true`,
		"onecycle(start=0)":                         `"start" is 0; want at least 1`,
		"onecycle(shape=round)":                     `"shape" is "round"; want one of [cosine linear]`,
		"trapezoid(shape=cosine)":                   `want one of [linear sqrt]`,
		"trapezoid(up=0.6,down=0.6)":                `together more than the run`,
		"akiba(reference=0)":                        `"reference" is 0`,
		"mlperf(power=0)":                           `"power" is 0`,
		"cosin":                                     `did you mean "cosine"`,
		"step(epochs=[30])":                         `step has no option "epochs"; there are: at, factor, lr`,
		"warmup(linear(constant),from=zero)":        `want a number`,
		"warmup(linear(linear(constant)),steps=1h)": `want a whole number`,
	} {
		s, err := lrschedule.Specs.Parse(text)
		if err == nil {
			_, err = s.New(r)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant …%s…", text, err, want)
		}
	}
	for _, s := range []lrschedule.Spec{
		lrschedule.Constant{LR: math.NaN()}, lrschedule.Warmup{}, lrschedule.Linear{Reference: 1},
		lrschedule.Warmup{Then: lrschedule.Linear{In: lrschedule.Constant{LR: -1}, Reference: 1}}, lrschedule.Goyal{},
	} {
		if _, err := s.New(r); err == nil {
			t.Errorf("%#v was taken", s)
		}
	}
	if _, err := lrschedule.Specs.MustParse("goyal").New(lrschedule.Run{}); err == nil || !strings.Contains(err.Error(), "the batch is 0") {
		t.Errorf("no batch: %v", err)
	}
}

func TestFraction(t *testing.T) {
	for p, want := range map[lrschedule.Progress]float64{
		{}: 0, {Step: 5}: 0, {Step: 5, Total: 20}: 0.25, {Step: 30, Total: 20}: 1,
	} {
		if got := p.Fraction(); got != want {
			t.Errorf("%+v: %v, want %v", p, got, want)
		}
	}
}

// A schedule made from a slice does not change with it.
func TestOwnsItsSlice(t *testing.T) {
	s := lrschedule.Step{LR: 1, At: []float64{2}, Factor: 0.5}
	f, err := s.New(lrschedule.Run{})
	if err != nil {
		t.Fatal(err)
	}
	s.At[0] = 0
	if got := f(lrschedule.Progress{Epoch: 1}); got != 1 {
		t.Errorf("rate %v, want 1", got)
	}
}

func Example() {
	spec, err := lrschedule.Specs.Parse("warmup(linear(step(lr=0.1)),epochs=5,from=0.1)")
	if err != nil {
		panic(err)
	}
	lr, err := spec.New(lrschedule.Run{Batch: 8192})
	if err != nil {
		panic(err)
	}
	for _, e := range []float64{0, 1, 5, 29, 30, 60} {
		fmt.Printf("epoch %2.0f  %.3f\n", e, lr(lrschedule.Progress{Epoch: e}))
	}
	// Output:
	// epoch  0  0.100
	// epoch  1  0.720
	// epoch  5  3.200
	// epoch 29  3.200
	// epoch 30  0.320
	// epoch 60  0.032
}
