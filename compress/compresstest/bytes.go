package compresstest

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/gradlab/gradlab/compress"
)

// checkSpec: an enrolled family round-trips through spec text and its prototype
// is valid.
func checkSpec(f compress.Family) error {
	if compress.Families.Name(f) == "" {
		return nil
	}
	text := compress.Spec(f)
	back, err := compress.Parse(text)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(back, f) {
		return fmt.Errorf("%s parses to %#v, not %#v", text, back, f)
	}
	return nil
}

// checkSize: what is billed is what is claimed, at every length and on every
// input.
func checkSize(f compress.Family) error {
	for _, d := range lengths {
		b := block(d)
		claims, ok := compress.ClaimsOf(f, b)
		c, err := newCoder(f, b)
		if err != nil {
			return err
		}
		for n, in := range inputs {
			if d > 5000 && n > 2 {
				break
			}
			if err := c.code(in.vector(d, 0)); err != nil {
				return fmt.Errorf("%s input: %w", in.name, err)
			}
			got := len(c.payload)
			if ok && (got > claims.Size || claims.Exact && got != claims.Size) {
				return fmt.Errorf("%s input (%v): %d bytes, claims %d (exact: %v)", in.name, c, got, claims.Size, claims.Exact)
			}
		}
	}
	return nil
}

// checkLossless: C(g) = g where claimed.
func checkLossless(f compress.Family) error {
	for _, d := range lengths {
		b := block(d)
		if claims, _ := compress.ClaimsOf(f, b); !claims.Lossless {
			continue
		}
		c, err := newCoder(f, b)
		if err != nil {
			return err
		}
		for _, in := range inputs[:4] {
			g := in.vector(d, 0)
			if err := c.code(g); err != nil {
				return err
			}
			if distance2(c.out, g) != 0 {
				return fmt.Errorf("%s input (%v): claims to be lossless and is not", in.name, c)
			}
		}
	}
	return nil
}

// checkLinear: FloatSum means that sums of wire vectors stand for sums of
// decodings, at the price of Size.
func checkLinear(f compress.Family) error {
	for _, d := range lengths[:12] {
		b := block(d)
		claims, _ := compress.ClaimsOf(f, b)
		var codecs [3]*coder
		for r := range codecs {
			b.Rank = r
			var err error
			if codecs[r], err = newCoder(f, b); err != nil {
				return err
			}
		}
		l, ok := codecs[0].Codec.(compress.Linear)
		if claims.Stateful {
			continue
		}
		if ok != (claims.Linear == compress.FloatSum) {
			return fmt.Errorf("claims linearity %v, implements Linear: %v", claims.Linear, ok)
		}
		if !ok {
			continue
		}
		if bytes := l.WireLen() * l.Wire().Bytes(); bytes != claims.Size {
			return fmt.Errorf("wire vector of %d bytes, payload of %d", bytes, claims.Size)
		}
		sum, one := make([]float32, l.WireLen()), make([]float32, l.WireLen())
		want, got := make([]float32, d), make([]float32, d)
		for step := range 3 {
			scale := 0.0
			clear(sum)
			clear(want)
			for r, c := range codecs {
				c.step = step
				g := gaussian(d, 10*step+r)
				if err := c.code(g); err != nil {
					return err
				}
				if err := c.Codec.(compress.Linear).Project(one, g, compress.Step{N: step}); err != nil {
					return fmt.Errorf("Project: %w", err)
				}
				clear(got)
				if err := l.Lift(got, 1, one, compress.Step{N: step}); err != nil {
					return fmt.Errorf("Lift: %w", err)
				}
				if !equal(got, c.out) {
					return fmt.Errorf("%v: Lift(Project(g)) is not what AddTo gives", c)
				}
				for i := range sum {
					sum[i] += one[i]
				}
				scale += norm2(c.out)
				for i := range want {
					want[i] += c.out[i]
				}
			}
			clear(got)
			if err := l.Lift(got, 1, sum, compress.Step{N: step}); err != nil {
				return fmt.Errorf("Lift of a sum: %w", err)
			}
			if e := distance2(got, want); e > 1e-12*scale {
				return fmt.Errorf("%d elements: Lift of the sum is off by %.3g of its squared norm", d, e/scale)
			}
		}
	}
	return nil
}

// errCorrupt says whether err is a proper refusal.
func errCorrupt(err error) bool { return errors.Is(err, compress.ErrCorrupt) }
