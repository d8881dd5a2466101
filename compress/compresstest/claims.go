package compresstest

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/compress"
)

// checkClaims: a codec claims no less than it shows, where that can be decided. What
// follows from its own claims it must claim; what no input of the suite contradicts
// it must claim too: that it loses nothing, that powers of two pass through, that
// sizes never vary. A codec that claims no contraction
// and no bound on its error must have an input on which it is none: one of the
// suite's, or its Witness; or it says why it does not know (compress.Doubter).
//
// What is not decided: that a bound might be tighter, but for families with a Witness;
// that an error is bounded by a number (Absolute), or a variance at all (Omega of
// +Inf); that sums of encodings mean something, which takes a Linear codec.
func checkClaims(f compress.Family) error {
	claims, ok := compress.ClaimsOf(f, block(65))
	if !ok {
		return nil
	}
	if err := sizesVary(f); err != nil {
		return err
	}
	if claims.Stateful {
		return stateShows(f)
	}
	for _, d := range []int{1, 2, 8, 65, 512, 513} {
		if err := implied(f, d); err != nil {
			return fmt.Errorf("%d elements: %w", d, err)
		}
	}
	if err := losesAndScales(f); err != nil {
		return err
	}
	for _, d := range []int{8, 65, 512, 513} {
		if err := noContraction(f, d); err != nil {
			return fmt.Errorf("%d elements: %w", d, err)
		}
	}
	return nil
}

// implied: some claims follow from others.
func implied(f compress.Family, d int) error {
	c, _ := compress.ClaimsOf(f, block(d))
	if c.Stateful { // of blocks of this length
		return nil
	}
	const slack = 1e-3 // for the rounding of float32
	switch {
	case c.Lossless && (!c.Unbiased || c.Delta < 1-slack):
		return fmt.Errorf("lossless, so Unbiased and a Delta of 1; claims unbiased %v, delta %v", c.Unbiased, c.Delta)
	case c.Unbiased && c.Delta < min(1, 1-c.Omega)-slack:
		return fmt.Errorf("unbiased with an omega of %.4g, so a Delta of %.4g; claims %.4g", c.Omega, 1-c.Omega, c.Delta)
	}
	return nil
}

// sizesVary: where Exact is not claimed, payloads differ in length, and so does what
// ranks put in where AskedBound is.
func sizesVary(f compress.Family) error {
	loose, size := false, -1
	for _, d := range []int{65, 512, 513, 4097, 1 << 16} {
		claims, _ := compress.ClaimsOf(f, block(d))
		if claims.Exact {
			continue
		}
		loose = true
		first := -1
		varies, err := someInput(d, func(g []float32) (bool, error) {
			c, err := newCoder(f, block(d))
			for range 5 { // a group of accumulate
				if err == nil {
					err = c.encode(g)
				}
				if first < 0 {
					first, size = len(c.payload), len(c.payload)
				}
				if len(c.payload) != first {
					return true, err
				}
			}
			return false, err
		})
		if varies || err != nil {
			return errors.Join(err, asksVary(f))
		}
	}
	if loose {
		return fmt.Errorf("claims a bound on the size but it never varies (%d bytes): claim Exact", size)
	}
	return asksVary(f)
}

func asksVary(f compress.Family) error {
	loose := false
	for _, d := range []int{65, 513} {
		b := block(d)
		b.World = world
		claims, _ := compress.ClaimsOf(f, b)
		r, err := newRing(f, d)
		if err != nil {
			return err
		}
		if !claims.AskedBound || r.road != compress.RoadOwn {
			continue
		}
		loose = true
		for n := range 8 {
			var g [][]float32
			for rank := range world {
				g = append(g, inputs[(n+rank)%len(inputs)].vector(d, n))
			}
			if err := r.step(n, g); err != nil {
				return err
			}
			for _, sent := range r.sent {
				if sent != claims.Asked {
					return nil
				}
			}
		}
	}
	if loose {
		return fmt.Errorf("claims a bound on what an exchange asks for but meets it always: AskedBound is not needed")
	}
	return nil
}

// losesAndScales: where they are not claimed, there are inputs that Lossless and
// Homogeneous do not hold for.
func losesAndScales(f compress.Family) error {
	loses, scales := true, true
	for _, d := range []int{65, 513} {
		claims, _ := compress.ClaimsOf(f, block(d))
		if claims.Stateful { // of blocks of this length
			return nil
		}
		if !claims.Lossless {
			lost, err := someInput(d, func(g []float32) (bool, error) {
				c, err := newCoder(f, block(d))
				if err == nil {
					err = c.code(g)
				}
				return err == nil && distance2(c.out, g) != 0, err
			})
			if err != nil {
				return err
			}
			loses = loses && lost
		}
		if !claims.Homogeneous {
			as := claimed{f, func(c *compress.Claims) { c.Homogeneous = true }}
			scales = scales && checkHomogeneous(as) != nil
		}
	}
	switch {
	case !loses:
		return fmt.Errorf("claims to lose something but shows no loss: claim Lossless")
	case !scales:
		return fmt.Errorf("powers of two pass through exactly: claim Homogeneous")
	}
	return nil
}

// someInput reports whether fn holds for an input of length d.
func someInput(d int, fn func(g []float32) (bool, error)) (bool, error) {
	rising := make([]float32, d) // the largest are the last
	for i := range rising {
		rising[i] = float32(i + 1)
	}
	if is, err := fn(rising); is || err != nil {
		return is, err
	}
	for _, in := range inputs {
		for n := range 3 {
			if is, err := fn(in.vector(d, n)); is || err != nil {
				return is, err
			}
		}
	}
	return false, nil
}

// claimed is a family that claims something else.
type claimed struct {
	compress.Family
	change func(*compress.Claims)
}

func (f claimed) Claims(b compress.Block) compress.Claims {
	c, _ := compress.ClaimsOf(f.Family, b)
	f.change(&c)
	return c
}

// stateShows: a codec that claims state encodes otherwise than a fresh one at some
// step, unless what it remembers loses nothing.
func stateShows(f compress.Family) error {
	for _, d := range []int{65, 513} {
		b := block(d)
		if m, ok := f.(compress.Compensator); ok {
			if in, _ := compress.ClaimsOf(m.Remembers(), b); in.Lossless {
				return nil
			}
		}
		c, err := newCoder(f, b)
		if err != nil {
			return err
		}
		for n := range 8 {
			g := gaussian(d, n)
			if err := c.encode(g); err != nil {
				return err
			}
			z, err := newCoder(f, b)
			if err != nil {
				return err
			}
			z.step = n
			if err := z.encode(g); err != nil {
				return err
			}
			if string(z.payload) != string(c.payload) {
				return nil
			}
		}
	}
	return fmt.Errorf("claims state, which frees it of most checks, but encodes as a fresh codec does: do not claim Stateful")
}

// noContraction: a codec that claims neither Delta nor Absolute has an input whose
// error is no less than itself.
func noContraction(f compress.Family, d int) error {
	b := block(d)
	claims, _ := compress.ClaimsOf(f, b)
	if claims.Stateful || claims.Delta > 0 || claims.Absolute > 0 {
		return nil
	}
	if o, ok := followed(f).(compress.Doubter); ok && o.Doubt(b) != "" {
		return nil
	}
	// What changes with the step alone must be a contraction at every step; what
	// draws, in the mean.
	seed := b
	seed.Seed++
	a, err := meaning(f, b, 0)
	if err != nil {
		return err
	}
	z, err := meaning(f, seed, 0)
	if err != nil {
		return err
	}
	random := !equal(a, z)
	most := 0.0
	for _, x := range hard(f, b) {
		if norm2(x) == 0 {
			continue
		}
		if random {
			mean, dev, err := errorOf(f, x, 300)
			if err != nil {
				return err
			}
			most = max(most, mean+3*dev)
		} else if most, err = largestError(f, x, most); err != nil {
			return err
		}
		if most >= 1-1e-5 {
			return nil
		}
	}
	return fmt.Errorf("claims no contraction but shows one: no squared error of the suite's inputs exceeds %.4g of ‖g‖²; "+
		"claim a Delta, return an input on which it is none from Witness, or say from Doubt why that is not known", most)
}

// largestError is the largest error of x in some steps, or most.
func largestError(f compress.Family, x []float32, most float64) (float64, error) {
	c, err := newCoder(f, block(len(x)))
	if err != nil {
		return 0, err
	}
	for range 8 {
		if err := c.code(x); err != nil {
			return 0, err
		}
		most = max(most, distance2(c.out, x)/norm2(x))
	}
	return most, nil
}

// hard is inputs that contractions fail on first, the family's own among them.
func hard(f compress.Family, b compress.Block) (out [][]float32) {
	d := b.Len()
	if w, ok := f.(compress.Witnesser); ok {
		if x := w.Witness(b); x != nil {
			out = append(out, x)
		}
	}
	with := func(rest float32, first ...float32) {
		x := make([]float32, d)
		for i := range x {
			x[i] = rest
		}
		copy(x, first)
		out = append(out, x)
	}
	with(0, 1)
	with(0, 1, 1)
	with(0, -1, 1)
	with(1e-4)
	with(1e4)
	for _, share := range []float32{0.5, 0.3, 0.1, 0.03, 0.01, 0.003} {
		with(share, 1)
		with(share, -1, 1)
	}
	for _, in := range inputs {
		out = append(out, in.vector(d, 0))
	}
	return out
}
