package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// checkFit refuses sizes to fit that are not one or two of those there are, rising.
func checkFit(sizes, of []int) error {
	if known := func(n int) bool { return slices.Contains(of, n) }; len(sizes) == 1 && known(sizes[0]) || len(sizes) == 2 && known(sizes[0]) && known(sizes[1]) && sizes[0] < sizes[1] {
		return nil
	}
	return fmt.Errorf("option %q is %v; want one or two of %v, rising", "fit", sizes, of)
}

// parameter is one that is fitted.
type parameter struct {
	name  string
	value float64
	// swing is how much the rms error of the fitted points grows when the value
	// is a third smaller or larger, the smaller growth of the two.
	swing float64
}

// weak says that the fitted points hardly depend on the parameter.
func (p parameter) weak() bool { return p.swing < 0.005 }

// fit finds the parameters, all above 0, with the least sum of squares of the
// residuals that f gives, which should be logarithms of ratios. It goes along one
// parameter after the other, in steps that become smaller: f is a simulation, with
// corners, and there are few.
func fit(ctx context.Context, ps []parameter, f func(values []float64) ([]float64, error)) ([]parameter, error) {
	x := make([]float64, len(ps))
	for i, p := range ps {
		x[i] = p.value
	}
	known := map[string]float64{}
	at := func(x []float64) (float64, error) {
		key := fmt.Sprint(x)
		if e, ok := known[key]; ok {
			return e, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rs, err := f(x)
		if err != nil {
			return 0, err
		}
		sum := 0.0
		for _, r := range rs {
			sum += r * r
		}
		known[key] = math.Sqrt(sum / float64(len(rs)))
		return known[key], nil
	}
	best, err := at(x)
	if err != nil {
		return nil, err
	}
	for step := 1.3; step > 1.015; {
		moved := false
		for i := range x {
			for _, by := range []float64{step, 1 / step} {
				y := append([]float64(nil), x...)
				y[i] = round(y[i] * by)
				e, err := at(y)
				if err != nil {
					return nil, err
				}
				if e < best*0.999 {
					x, best, moved = y, e, true
				}
			}
		}
		if !moved {
			step = math.Sqrt(step)
		}
	}
	out := append([]parameter(nil), ps...)
	for i := range x {
		out[i].value, out[i].swing = x[i], math.Inf(1)
		for _, by := range []float64{1.5, 1 / 1.5} {
			y := append([]float64(nil), x...)
			y[i] = round(y[i] * by)
			e, err := at(y)
			if err != nil {
				return nil, err
			}
			out[i].swing = min(out[i].swing, e-best)
		}
	}
	return out, nil
}

// round keeps three digits: what a parameter is worth.
func round(x float64) float64 {
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

// solve finds where ratio, which rises or falls with x above 0, is 1: by secants of
// logarithms, from x on. It ends within half a per cent, or where a few steps lead.
func solve(ctx context.Context, x float64, ratio func(x float64) (float64, error)) (float64, error) {
	at := func(x float64) (float64, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		r, err := ratio(x)
		return math.Log(r), err
	}
	y, err := at(x)
	if err != nil || math.Abs(y) < 0.001 {
		return x, err
	}
	next := round(x * 1.2)
	for range 6 {
		z, err := at(next)
		if err != nil {
			return 0, err
		}
		slope := (z - y) / math.Log(next/x)
		if x, y = next, z; math.Abs(y) < 0.001 || math.Abs(slope) < 1e-3 {
			return x, nil
		}
		next = round(x * math.Exp(min(max(-y/slope, -0.7), 0.7)))
		if next == x {
			return x, nil
		}
	}
	return x, nil
}
