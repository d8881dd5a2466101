package compresstest

import (
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// checkHomogeneous: powers of two pass through exactly where claimed.
func checkHomogeneous(f compress.Family) error {
	for _, d := range []int{1, 8, 65, 513} {
		claims, _ := compress.ClaimsOf(f, block(d))
		if !claims.Homogeneous || claims.Stateful {
			continue
		}
		c, err := newCoder(f, block(d))
		if err != nil {
			return err
		}
		for _, in := range inputs {
			g := in.vector(d, 2)
			c.step = 5
			if err := c.code(g); err != nil {
				return err
			}
			base := append([]float32(nil), c.out...)
			for _, k := range []int{-20, -1, 3, 30} {
				scaled := make([]float32, d)
				for i, v := range g {
					scaled[i] = float32(math.Ldexp(float64(v), k))
				}
				c.step = 5
				if err := c.code(scaled); err != nil {
					return err
				}
				for i, v := range c.out {
					if want := float32(math.Ldexp(float64(base[i]), k)); v != want {
						return fmt.Errorf("%s input of %d times 2^%d: element %d becomes %g, not %g", in.name, d, k, i, v, want)
					}
				}
			}
		}
	}
	return nil
}

// checkSpecial: NaN and Inf are answered as declared, wherever they sit, and a
// refusal changes nothing; finite extremes never become NaN or Inf.
func checkSpecial(f compress.Family) error {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, d := range []int{1, 8, 65, 513} {
		claims, _ := compress.ClaimsOf(f, block(d))
		for _, at := range []int{0, d / 2, d - 1} {
			for _, bad := range []float32{nan, inf, -inf} {
				if err := special(f, claims.Special, d, at, bad); err != nil {
					return fmt.Errorf("%v at %d of %d: %w", bad, at, d, err)
				}
			}
		}
		for name, v := range map[string]float32{
			"largest": math.MaxFloat32, "tiny": math.SmallestNonzeroFloat32, "small": 1e-38,
		} {
			g := make([]float32, d)
			for i := range g {
				g[i] = v * float32(1-2*(i&1))
			}
			c, err := newCoder(f, block(d))
			if err != nil {
				return err
			}
			if err := c.encode(g); errors.Is(err, compress.ErrNotFinite) {
				continue // an overflow that is reported
			} else if err != nil {
				return fmt.Errorf("%s values: %w", name, err)
			}
			if err := c.decode(); err != nil {
				return fmt.Errorf("%s values: %w", name, err)
			}
			for i, v := range c.out {
				if v-v != 0 {
					return fmt.Errorf("%s values: finite input, but element %d of %d decodes to %v", name, i, d, v)
				}
			}
		}
	}
	return nil
}

func special(f compress.Family, policy compress.Special, d, at int, bad float32) error {
	c, err := newCoder(f, block(d))
	if err != nil {
		return err
	}
	ref, err := newCoder(f, block(d))
	if err != nil {
		return err
	}
	for _, x := range []*coder{c, ref} {
		if err := x.encode(gaussian(d, 0)); err != nil {
			return err
		}
	}
	g := gaussian(d, 1)
	g[at] = bad
	prefix := []byte("prefix")
	out, err := c.Append(prefix, g, compress.Step{N: 1})
	if policy == compress.SpecialPropagate {
		if err != nil {
			return err
		}
		c.payload, c.step = out[len(prefix):], 2
		if err := c.decode(); err != nil {
			return err
		}
		if v := c.out[at]; v == bad || v != v && bad != bad {
			return nil
		}
		return fmt.Errorf("declared to propagate, arrives as %v", c.out[at])
	}
	if !errors.Is(err, compress.ErrNotFinite) {
		return fmt.Errorf("Append returns %v, want ErrNotFinite", err)
	}
	if len(out) < len(prefix) || string(out[:len(prefix)]) != "prefix" {
		return fmt.Errorf("Append lost what was in dst when it refused")
	}
	for _, x := range []*coder{c, ref} {
		x.step = 2
		if err := x.encode(gaussian(d, 2)); err != nil {
			return err
		}
	}
	if string(c.payload) != string(ref.payload) {
		return fmt.Errorf("the refusal changed the codec's state")
	}
	return nil
}

// checkZero: zero in, zero out, for every codec whose claims imply it.
func checkZero(f compress.Family) error {
	for _, d := range lengths[:12] {
		claims, _ := compress.ClaimsOf(f, block(d))
		c, err := newCoder(f, block(d))
		if err != nil {
			return err
		}
		for _, zero := range []float32{0, float32(math.Copysign(0, -1))} {
			g := make([]float32, d)
			for i := range g {
				g[i] = zero
			}
			if err := c.code(g); err != nil {
				return fmt.Errorf("zeros: %w", err)
			}
			for i, v := range c.out {
				if v != v || v != 0 && (claims.Unbiased || claims.Delta > 0 || claims.Homogeneous) {
					return fmt.Errorf("%d zeros: element %d decodes to %v", d, i, v)
				}
			}
		}
	}
	return nil
}
