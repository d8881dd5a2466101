package compresstest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// checkFeedback: contributions and residual telescope to the inputs over 1,000
// steps, ‖Σg − ΣC‖ = ‖e‖, and the residual stays below what Delta allows. That
// goes for every Residualer but a Telescoper that says otherwise. A family without state
// is put inside feedback, which must refuse it exactly when it claims no
// contraction.
func checkFeedback(f compress.Family) error {
	const d, steps = 65, 1000
	b := block(d)
	claims, ok := compress.ClaimsOf(f, b)
	in := claims
	if ts, is := f.(compress.Telescoper); is && !ts.Telescopes() {
		return nil
	}
	if m, is := f.(compress.Compensator); is {
		in, _ = compress.ClaimsOf(m.Remembers(), b)
	} else if ok && !claims.Stateful {
		fb := compress.Feedback{In: f, Decay: 1}
		if _, err := fb.New(b); (err == nil) != (claims.Delta > 0 || claims.Absolute > 0) {
			return fmt.Errorf("feedback over it: %v, with delta %v, absolute %v", err, claims.Delta, claims.Absolute)
		}
		if fb.Unchecked = true; claims.Delta == 0 && claims.Absolute == 0 {
			_, err := fb.New(b)
			return err
		}
		f = fb
	}
	c, err := newCoder(f, b)
	if err != nil {
		return err
	}
	r, ok := c.Codec.(compress.Residualer)
	if !ok {
		return nil
	}
	diff := make([]float64, d) // Σg − ΣC
	var largest, seen float64
	for n := range steps {
		g := inputs[n%4].vector(d, n)
		if err := c.code(g); err != nil {
			return err
		}
		s := 0.0
		for i := range diff {
			diff[i] += float64(g[i]) - float64(c.out[i])
			s += sq(diff[i])
		}
		largest, seen = max(largest, norm2(g)), max(seen, s)
		if e := r.ResidualNorm(); math.Abs(e-math.Sqrt(s)) > 1e-4*(math.Sqrt(largest)+e) {
			return fmt.Errorf("step %d: inputs minus contributions %.6g, residual %.6g", n, math.Sqrt(s), e)
		}
	}
	if in.Absolute > 0 && seen > in.Absolute*(1+1e-4) { // the residual is one error
		return fmt.Errorf("residual² reached %.4g, absolute allows %.4g", seen, in.Absolute)
	}
	// E‖e‖² ≤ 4(1−δ)/δ²·max‖g‖² (Karimireddy et al. 2019, lemma 3).
	if bound := 4 * (1 - in.Delta) / sq(in.Delta) * largest; in.Delta > 0 && seen > bound+1e-6*largest {
		return fmt.Errorf("residual² reached %.4g, delta %.3g allows %.4g", seen, in.Delta, bound)
	}
	if o, ok := c.Codec.(compress.Owing); ok {
		return owes(o, c, diff, math.Sqrt(largest))
	}
	return nil
}

// owes: what is handed over is inputs minus contributions, and so it is after another residual and a step.
func owes(o compress.Owing, c *coder, diff []float64, most float64) error {
	for n := range 3 {
		e, more, g := make([]float32, len(diff)), inputs[0].vector(len(diff), n+7), inputs[1].vector(len(diff), n+8)
		o.AddResidual(e, 1)
		o.Owe(more)
		if err := c.code(g); err != nil {
			return err
		}
		for i, want := range diff {
			if math.Abs(float64(e[i])-want) > 1e-3*(1+most) {
				return fmt.Errorf("handed over %d times: owes %.6g at %d, inputs minus contributions are %.6g", n, e[i], i, want)
			}
			diff[i] += float64(more[i]) + float64(g[i]) - float64(c.out[i])
		}
	}
	return nil
}

// stateSteps is how long restarts are watched: longer than what goes round in them,
// such as a group of accumulate or the turns of the ranks.
const stateSteps = 10

// checkState: a codec restored from its state, at any step, goes on byte for byte, one that
// claims no state has none, and damaged state is refused without being taken.
func checkState(f compress.Family) error {
	for _, d := range []int{0, 1, 65, 513} {
		b := block(d)
		claims, claimed := compress.ClaimsOf(f, b)
		a, err := newCoder(f, b)
		if err != nil {
			return err
		}
		s, ok := a.Codec.(compress.Stateful)
		if claimed && ok != claims.Stateful {
			return fmt.Errorf("claims state: %v, has state to save: %v", claims.Stateful, ok)
		}
		var restored []*coder // one from every step
		for n := range stateSteps {
			z, err := newCoder(f, b)
			if err != nil {
				return err
			}
			if ok {
				saved, err := s.AppendBinary([]byte("x"))
				if err != nil {
					return fmt.Errorf("AppendBinary: %w", err)
				}
				if n == 0 || n == 3 {
					if err := damage(z.Codec.(compress.Stateful), saved[1:]); err != nil {
						return fmt.Errorf("%d elements: %w", d, err)
					}
				}
				if err := z.Codec.(compress.Stateful).UnmarshalBinary(saved[1:]); err != nil {
					return fmt.Errorf("UnmarshalBinary: %w", err)
				}
			}
			restored = append(restored, z)
			g := gaussian(d, n)
			if err := a.encode(g); err != nil {
				return err
			}
			for from, z := range restored {
				z.step = n
				if err := z.encode(g); err != nil {
					return err
				}
				if !bytes.Equal(a.payload, z.payload) {
					return fmt.Errorf("%d elements, restarted at step %d: at step %d the bytes differ (stateful: %v)", d, from, n, ok)
				}
			}
		}
	}
	return nil
}

// damage feeds broken state to s.
func damage(s compress.Stateful, good []byte) error {
	kept, err := s.AppendBinary(nil)
	if err != nil {
		return err
	}
	for cut := 0; cut < len(good); cut += 1 + len(good)/50 {
		if err := guard(func() error { return s.UnmarshalBinary(good[:cut]) }); !errCorrupt(err) {
			return fmt.Errorf("%d of %d bytes of state: %v", cut, len(good), err)
		}
	}
	if err := guard(func() error { return s.UnmarshalBinary(append(bytes.Clone(good), 1)) }); !errCorrupt(err) {
		return fmt.Errorf("a byte behind the state: %v", err)
	}
	now, err := s.AppendBinary(nil)
	if err == nil && !bytes.Equal(now, kept) {
		err = fmt.Errorf("damaged state was refused but taken in")
	}
	return err
}
