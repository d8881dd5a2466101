package compresstest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

// floors are the values around one spike of 1, or one in each row. A scale that the spike
// sets rounds the floor to nothing, or up, and a share of each row leaves most of it out.
var floors = []float64{0.3, 0.1, 0.05, 0.02, 0.003}

// spiked is a block's vector of spikes on a floor: one spike, or one a row; the floor below
// 0, above 0 or of either sign.
func spiked(b compress.Block, k rng.Key, floor float64, eachRow bool, sign int) []float32 {
	x := make([]float32, b.Len())
	for i := range x {
		s := float64(sign)
		if sign == 0 {
			s = signOf(k, i)
		}
		x[i] = float32(s * floor)
	}
	for row := range b.Rows {
		if at := row*b.Cols + k.IntN(uint64(b.Len()+row), b.Cols); eachRow || row == b.Rows/2 {
			x[at] = 1
		}
	}
	return x
}

// checkWorst: the mean squared error stays within Omega and Delta where it is largest:
// on spikes over floors, in matrices of more than 10⁴ elements, and on inputs that a search
// climbs to from there.
func checkWorst(f compress.Family) error {
	for _, shape := range [][2]int{{64, 256}, {8, 32}} {
		b := block(shape[0] * shape[1])
		b.Rows, b.Cols = shape[0], shape[1]
		claims, ok := compress.ClaimsOf(f, b)
		if !ok || claims.Stateful || len(bounds(claims)) == 0 {
			return nil
		}
		h := hill{f: f, b: b, draws: 1}
		random, err := draws(f, b.Len())
		if err != nil {
			return err
		}
		if random || claims.Unbiased && claims.Omega > 0 {
			h.draws = 12
		}
		if h.coder, err = newCoder(f, b); err != nil {
			return err
		}
		if err := h.spikes(); err != nil {
			return err
		}
		if b.Len() < 1000 {
			if err := h.climb(); err != nil {
				return err
			}
		}
		if err := h.judge(claims); err != nil {
			return err
		}
	}
	return nil
}

// hill is a search for the input of a block on which a family errs most.
type hill struct {
	f     compress.Family
	b     compress.Block
	coder *coder
	draws int // encodings that an error is the mean of; the same draws for every input

	tops []summit // the worst of the laws, the worst first
}

// summit is an input and its error.
type summit struct {
	name string
	x    []float32
	off  float64
}

// off is the mean of ‖C(x)−x‖²/‖x‖², and toward the mean of x − C(x).
func (h *hill) off(x []float32, toward []float64) (sum float64, err error) {
	xx := norm2(x)
	if h.coder.step = 0; xx == 0 {
		return 0, nil
	}
	clear(toward)
	for range h.draws {
		if err := h.coder.code(x); err != nil {
			return 0, err
		}
		sum += distance2(h.coder.out, x) / xx / float64(h.draws)
		for i := range toward {
			toward[i] += (float64(x[i]) - float64(h.coder.out[i])) / float64(h.draws)
		}
	}
	return sum, nil
}

// spikes tries spikes over floors, and laws of other gradients.
func (h *hill) spikes() error {
	k := rng.New(1, "compresstest/worst")
	var all []summit
	for _, in := range inputs {
		if x := in.vector(h.b.Len(), 2); norm2(x) > 0 {
			all = append(all, summit{name: in.name, x: x})
		}
	}
	for _, floor := range floors {
		for i := range 6 {
			eachRow, sign := i%2 == 1, i/2-1
			all = append(all, summit{name: fmt.Sprintf("spikes over a floor of %g (one a row: %v, sign %d)", floor, eachRow, sign), x: spiked(h.b, k, floor, eachRow, sign)})
		}
	}
	for i := range all {
		var err error
		if all[i].off, err = h.off(all[i].x, nil); err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b summit) int {
		switch {
		case a.off > b.off:
			return -1
		case a.off < b.off:
			return 1
		}
		return 0
	})
	h.tops = all[:3]
	return nil
}

// climb goes up from the worst of the laws, a hundred steps from each: along the gradient of
// the error ratio where C(x) stays as it is, or by a change at random of a share of the
// values. A step that does not raise the error is taken back, and the next is shorter.
func (h *hill) climb() error {
	k := rng.New(2, "compresstest/worst")
	toward, next := make([]float64, h.b.Len()), make([]float32, h.b.Len())
	for t := range h.tops {
		at := &h.tops[t]
		at.x = slices.Clone(at.x)
		rate := 0.5
		for step := range 100 {
			k := k.With(uint64(t)).With(uint64(step))
			if _, err := h.off(at.x, toward); err != nil {
				return err
			}
			scale := math.Sqrt(norm2(at.x) / float64(len(at.x)))
			for i, v := range at.x {
				switch x := float64(v); {
				case step%3 == 0: // d‖C−x‖²/‖x‖² ∝ x − C − off·x
					next[i] = float32(x + rate*(toward[i]-at.off*x))
				case k.Float64(uint64(3*i)) > 0.1:
					next[i] = v
				case step%3 == 1:
					next[i] = float32(x * (1 + rate*k.Norm(uint64(3*i+1))))
				default:
					next[i] = float32(x + rate*scale*k.Norm(uint64(3*i+1)))
				}
			}
			off, err := h.off(next, nil)
			if err != nil {
				return err
			}
			if off > at.off {
				at.off, rate = off, min(1.5*rate, 2)
				copy(at.x, next)
			} else {
				rate = max(0.9*rate, 1e-3)
			}
		}
		at.name += ", after a search from there"
	}
	return nil
}

// judge holds the worst inputs to what is claimed, by draws that the search has not seen: a
// few tell which inputs are in doubt, and many judge those.
func (h *hill) judge(claims compress.Claims) error {
	few, many := 1, 1
	if h.draws > 1 {
		few, many = 50, 5000
	}
	for _, at := range h.tops {
		for name, bound := range bounds(claims) {
			allowed := bound*(1+1e-5) + 1e-12
			mean, dev, err := h.fresh(at.x, few)
			if err != nil {
				return err
			}
			if mean <= allowed {
				continue
			}
			if many > few {
				if mean, dev, err = h.fresh(at.x, many); err != nil {
					return err
				}
				// An outcome of 16/many or less may not have been drawn (e⁻¹⁶).
				allowed += 6*dev + 16*mean/float64(many)
			}
			if mean > allowed {
				return fmt.Errorf("%d×%d, %s: squared error %.4g ± %.1g of ‖g‖², claims %s = %.4g", h.b.Rows, h.b.Cols, at.name, mean, dev, name, bound)
			}
		}
	}
	return nil
}

// fresh is errorOf by draws that off did not use.
func (h *hill) fresh(x []float32, steps int) (mean, dev float64, err error) {
	c, err := newCoder(h.f, h.b)
	if err != nil {
		return 0, 0, err
	}
	c.step = h.draws
	return c.errorOf(x, steps)
}
