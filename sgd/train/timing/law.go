package timing

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/registry"
)

// Law is how the compute time of a step varies around its mean, on a virtual
// clock.
type Law interface {
	// Factor is the time of one step in units of the mean, at least 0. k
	// addresses the step of one worker: the same k, the same factor. Safe for
	// concurrent use.
	Factor(k Key) float64
}

// Key is the address of a step, and draws by it: Float64(i) is uniform in [0, 1),
// Norm(i) standard normal, Exp(i) exponential of mean 1, With(v) a further address.
type Key = rng.Key

// Laws holds every law by name. All have mean 1, so that device.flops keeps its
// meaning.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Laws = registry.New[Law]("law")

// Constant is a step that always takes as long.
type Constant struct{}

var _ = Laws.Add("constant", "every step takes the same time", Constant{})

// Factor implements Law.
func (Constant) Factor(Key) float64 { return 1 }

// Lognormal multiplies by e^(Sigma·z − Sigma²/2), z standard normal: small
// disturbances that multiply up. A Sigma of 0.02 to 0.03 is what published
// scaling curves of dedicated GPUs imply.
type Lognormal struct{ Sigma float64 }

var _ = Laws.Add("lognormal", "lognormal: many small disturbances", Lognormal{Sigma: 0.02})

// Validate implements registry.Validator.
func (l Lognormal) Validate() error { return atLeast0("sigma", l.Sigma, 3) }

// Factor implements Law.
func (l Lognormal) Factor(k Key) float64 { return l.factor(k.Norm(0)) }

// Exponential is the law without memory: the analyses of asynchronous SGD in
// closed form rest on it (Dutta et al. 2018).
type Exponential struct{}

var _ = Laws.Add("exponential", "exponential: no memory", Exponential{})

// Factor implements Law.
func (Exponential) Factor(k Key) float64 { return k.Exp(0) }

// ShiftedExponential is a least time, Shift of the mean, and an exponential
// rest: Δ + Exp(μ) with Δ = Shift and 1/μ = 1 − Shift (Dutta et al. 2018; Lee
// et al. 2018).
type ShiftedExponential struct{ Shift float64 }

var _ = Laws.Add("shifted_exponential", "a least time and an exponential rest", ShiftedExponential{Shift: 0.5})

// Validate implements registry.Validator.
func (l ShiftedExponential) Validate() error { return atLeast0("shift", l.Shift, 1) }

// Factor implements Law.
func (l ShiftedExponential) Factor(k Key) float64 { return l.Shift + float64((1-l.Shift)*k.Exp(0)) }

// Gamma has the coefficient of variation CV: 0.1 is the homogeneous cluster of
// the DANA and gap-aware studies, 1 is exponential.
type Gamma struct{ CV float64 }

var _ = Laws.Add("gamma", "gamma, by its coefficient of variation", Gamma{CV: 0.1})

// Validate implements registry.Validator.
func (l Gamma) Validate() error {
	if !(l.CV > 0 && l.CV <= 10) {
		return fmt.Errorf("option %q is %v; want above 0, at most 10", "cv", l.CV)
	}
	return nil
}

// Factor implements Law, by the method of Marsaglia and Tsang (2000).
func (l Gamma) Factor(k Key) float64 {
	shape, boost := 1/(l.CV*l.CV), 1.0
	mean := shape
	if shape < 1 { // G(a) = G(a+1)·U^(1/a)
		boost = portable.Pow(1-k.Float64(0), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	for i := uint64(1); ; i++ {
		z := k.With(i).Norm(0)
		v := 1 + z/math.Sqrt(9*d)
		if v <= 0 {
			continue
		}
		v = v * v * v
		if portable.Log(1-k.With(i).Float64(7)) < float64(z*z/2)+d-float64(d*v)+float64(d*portable.Log(v)) {
			return d * v * boost / mean
		}
	}
}

// Pareto has the tail P(X > x) ∝ x^−Alpha: rare steps that take very long.
type Pareto struct{ Alpha float64 }

var _ = Laws.Add("pareto", "Pareto: rare steps that take very long", Pareto{Alpha: 3})

// Validate implements registry.Validator.
func (l Pareto) Validate() error {
	if !(l.Alpha > 1) || math.IsInf(l.Alpha, 0) {
		return fmt.Errorf("option %q is %v; want above 1, else there is no mean", "alpha", l.Alpha)
	}
	return nil
}

// Factor implements Law.
func (l Pareto) Factor(k Key) float64 {
	return (l.Alpha - 1) / l.Alpha * portable.Pow(1-k.Float64(0), -1/l.Alpha)
}

// Uniform lies within 1 ± Spread.
type Uniform struct{ Spread float64 }

var _ = Laws.Add("uniform", "uniform around the mean", Uniform{Spread: 0.5})

// Validate implements registry.Validator.
func (l Uniform) Validate() error { return atLeast0("spread", l.Spread, 1) }

// Factor implements Law.
func (l Uniform) Factor(k Key) float64 { return 1 + float64(l.Spread*(float64(2*k.Float64(0))-1)) }

// Trace draws, with replacement, from times that were measured: a text file with
// a number a line, in any unit, which are divided by their mean. Lines that are
// empty or begin with # are passed over.
type Trace struct{ File string }

var _ = Laws.Add("trace", "drawn from measured times, a file with a number a line", Trace{})

// Factor implements Law. A trace must be Loaded first.
func (Trace) Factor(Key) float64 { return 1 }

// Load reads the file.
func (l Trace) Load() (Law, error) {
	if l.File == "" {
		return nil, fmt.Errorf("option %q is missing: trace(file=times.txt), a number a line", "file")
	}
	f, err := os.Open(l.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var t sample
	sum := 0.0
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s, line %d: want a time, not %q", l.File, n, text)
		}
		t.times = append(t.times, x)
		sum += x
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	if !(sum > 0) {
		return nil, fmt.Errorf("%s holds no times above 0", l.File)
	}
	t.mean = sum / float64(len(t.times))
	return t, nil
}

// sample is a trace that was read.
type sample struct {
	times []float64
	mean  float64
}

func (t sample) Factor(k Key) float64 { return t.times[k.IntN(0, len(t.times))] / t.mean }

func atLeast0(name string, v, most float64) error {
	if !(v >= 0 && v <= most) {
		return fmt.Errorf("option %q is %v; want 0 to %v", name, v, most)
	}
	return nil
}
