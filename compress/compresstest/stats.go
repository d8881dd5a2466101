package compresstest

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// Trials of one input: enough for the bounds below, few enough for a test run.
const trials = 3000

// moments of C(x) over many steps.
type moments struct {
	mean, dev  []float64 // per coordinate: mean error, its standard error
	proj, pdev float64   // of ⟨C(x)−x, x⟩/‖x‖²
	// rare is the largest error seen, times 16/trials: what a coordinate may be
	// off because its rare outcome has not occurred (e⁻¹⁶ at a rate of 16/trials).
	rare, prare float64
}

func measure(f compress.Family, x []float32) (m moments, err error) {
	d := len(x)
	c, err := newCoder(f, block(d))
	if err != nil {
		return m, err
	}
	sum, sum2 := make([]float64, d), make([]float64, d)
	var p, p2 float64
	xx := norm2(x)
	for range trials {
		if err := c.code(x); err != nil {
			return m, err
		}
		dot := 0.0
		for i, v := range c.out {
			e := float64(v) - float64(x[i]) // around x, or the variance cancels
			sum[i] += e
			sum2[i] += e * e
			dot += e * float64(x[i])
			m.rare = max(m.rare, math.Abs(e)*16/trials)
		}
		m.prare = max(m.prare, math.Abs(dot)/xx*16/trials)
		p += dot / xx
		p2 += sq(dot / xx)
	}
	m.mean, m.dev = make([]float64, d), make([]float64, d)
	for i := range sum {
		m.mean[i] = sum[i] / trials
		m.dev[i] = math.Sqrt(max(0, sum2[i]/trials-sq(m.mean[i])) / trials)
	}
	m.proj = p / trials
	m.pdev = math.Sqrt(max(0, p2/trials-sq(m.proj)) / trials)
	return m, nil
}

// checkUnbiased: a claim of E C(g) = g stands up to a projection test and to
// z-scores per coordinate (Bonferroni: 6.5 deviations leave 1e-7 for 1000
// coordinates), and a codec that does not claim it is caught somewhere, so that
// the test is known to have teeth.
func checkUnbiased(f compress.Family) error {
	caught, claimed := false, false
	for _, d := range []int{7, 65, 513} {
		claims, ok := compress.ClaimsOf(f, block(d))
		if !ok || claims.Stateful {
			return nil
		}
		claimed = claimed || claims.Unbiased
		for _, in := range inputs[:6] {
			if caught && !claims.Unbiased {
				break
			}
			x := in.vector(d, 0)
			m, err := measure(f, x)
			if err != nil {
				return err
			}
			err = m.bias(x)
			if err != nil && claims.Unbiased {
				return fmt.Errorf("claims no bias; %s input of %d: %w", in.name, d, err)
			}
			caught = caught || err != nil
		}
	}
	if !claimed && !caught {
		return fmt.Errorf("claims a bias but shows none: claim Unbiased")
	}
	return nil
}

// bias says where the mean is significantly off. Rounding to float32 is no bias.
func (m moments) bias(x []float32) error {
	const z, rounding = 6.5, 1e-6
	if math.Abs(m.proj) > z*m.pdev+m.prare+rounding {
		return fmt.Errorf("projection on the input is 1%+.3g, standard error %.2g", m.proj, m.pdev)
	}
	for i, v := range x {
		if math.Abs(m.mean[i]) > z*m.dev[i]+m.rare+rounding*math.Abs(float64(v))+1e-30 {
			return fmt.Errorf("coordinate %d: mean off by %.3g of %.3g, standard error %.2g", i, m.mean[i], v, m.dev[i])
		}
	}
	return nil
}

// errorOf is the mean of ‖C(x)−x‖²/‖x‖² over steps and its standard error.
func errorOf(f compress.Family, x []float32, steps int) (mean, dev float64, err error) {
	c, err := newCoder(f, block(len(x)))
	if err != nil {
		return 0, 0, err
	}
	return c.errorOf(x, steps)
}

func (c *coder) errorOf(x []float32, steps int) (mean, dev float64, err error) {
	var s, s2 float64
	for range steps {
		if err := c.code(x); err != nil {
			return 0, 0, err
		}
		e := distance2(c.out, x) / norm2(x)
		s += e
		s2 += e * e
	}
	n := float64(steps)
	mean = s / n
	return mean, math.Sqrt(max(0, s2/n-mean*mean) / n), nil
}

// draws says whether decoded values change from step to step.
func draws(f compress.Family, d int) (bool, error) {
	a, err := meaning(f, block(d), 0)
	if err != nil {
		return false, err
	}
	for step := 1; step < 8; step++ {
		b, err := meaning(f, block(d), step)
		if err != nil || !equal(a, b) {
			return true, err
		}
	}
	return false, nil
}

// bounds lists what claims say about E‖C(g)−g‖²/‖g‖².
func bounds(c compress.Claims) map[string]float64 {
	out := map[string]float64{}
	if c.Unbiased && !math.IsInf(c.Omega, 1) {
		out["omega"] = c.Omega
	}
	if c.Delta > 0 {
		out["1-delta"] = 1 - c.Delta
	}
	return out
}

// checkError: the mean squared error stays within Omega and Delta on every
// input.
func checkError(f compress.Family) error {
	for _, d := range []int{1, 2, 8, 65, 512, 513, 65537} {
		claims, ok := compress.ClaimsOf(f, block(d))
		if !ok || claims.Stateful {
			return nil
		}
		if claims.Delta < 0 || claims.Delta > 1 || claims.Omega < 0 {
			return fmt.Errorf("claims delta %v, omega %v: out of range", claims.Delta, claims.Omega)
		}
		steps := 2
		random, err := draws(f, d)
		if err != nil {
			return err
		}
		if random || claims.Unbiased && claims.Omega > 0 { // draws may agree by chance

			steps = 1500
		}
		for _, in := range inputs {
			x := in.vector(d, 1)
			switch {
			case norm2(x) == 0:
				continue
			case d > 1<<16 && steps > 2:
				steps = 10
			case d > 1<<16: // 16 bits do not hold the last index
				clear(x)
				x[d-1] = 1
			}
			mean, dev, err := errorOf(f, x, steps)
			if err != nil {
				return err
			}
			if claims.Absolute > 0 && mean*norm2(x) > claims.Absolute {
				return fmt.Errorf("%s input of %d: squared error %.4g, claims absolute = %.4g", in.name, d, mean*norm2(x), claims.Absolute)
			}
			for name, bound := range bounds(claims) {
				if mean > bound*(1+1e-5)+1e-12+6*dev {
					return fmt.Errorf("%s input of %d: squared error %.4g ± %.1g of ‖g‖², claims %s = %.4g",
						in.name, d, mean, dev, name, bound)
				}
			}
			if d > 1<<16 {
				break
			}
		}
	}
	return nil
}

// checkWitness: on the family's own worst case a bound is met within 10 %.
func checkWitness(f compress.Family) error {
	w, ok := f.(compress.Witnesser)
	for _, d := range []int{8, 64, 512} {
		claims, _ := compress.ClaimsOf(f, block(d))
		if !ok || claims.Stateful {
			return nil
		}
		x := w.Witness(block(d))
		if x == nil {
			continue
		}
		if len(x) != d {
			return fmt.Errorf("witness of %d elements for a block of %d", len(x), d)
		}
		mean, dev, err := errorOf(f, x, 1000)
		if err != nil {
			return err
		}
		all := bounds(claims)
		tight := len(all) == 0
		for _, bound := range all {
			if mean > bound*(1+1e-5)+1e-12+6*dev {
				return fmt.Errorf("witness of %d: squared error %.4g ± %.1g, claims %v", d, mean, dev, all)
			}
			tight = tight || mean+6*dev >= 0.9*bound
		}
		if !tight {
			return fmt.Errorf("witness of %d: squared error %.4g ± %.1g, not near any of %v", d, mean, dev, all)
		}
	}
	return nil
}
