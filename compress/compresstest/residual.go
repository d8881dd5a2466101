package compresstest

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// checkResidual: what claims a memory tells its norm, by itself and in an exchange: 0
// before the first step, and the same after a restart.
func checkResidual(f compress.Family) error {
	const d, steps = 513, 6
	if claims, ok := compress.ClaimsOf(f, block(d)); !ok || !claims.Remembers {
		return nil
	}
	c, err := newCoder(f, block(d))
	if err != nil {
		return err
	}
	code := func(n int) error { return c.encode(inputs[n%4].vector(d, n)) }
	fresh := func() (any, error) { return f.New(block(d)) }
	if err := tellsResidual("its codec", c.Codec, fresh, steps, code); err != nil {
		return err
	}
	r, err := newRing(f, d)
	if err != nil {
		return err
	}
	step := func(n int) error {
		v := inputs[n%4].vector(d, n)
		return r.step(n, [][]float32{v, v, v})
	}
	fresh = func() (any, error) {
		b := block(d)
		b.World = world
		x, _, err := compress.NewExchange(f, b)
		return x, err
	}
	return tellsResidual("its exchange", r.ex[0], fresh, steps, step)
}

// tellsResidual says what is wrong with the norm that v tells while it makes steps.
func tellsResidual(what string, v any, fresh func() (any, error), steps int, step func(n int) error) error {
	r, ok := v.(compress.Residualer)
	if !ok {
		return fmt.Errorf("claims a memory, and %s does not tell what is in it: implement Residualer", what)
	}
	if n := r.ResidualNorm(); n != 0 {
		return fmt.Errorf("%s: residual %v before the first step", what, n)
	}
	seen := 0.0
	for n := range steps {
		if err := step(n); err != nil {
			return err
		}
		norm := r.ResidualNorm()
		if math.IsNaN(norm) || math.IsInf(norm, 0) || norm < 0 {
			return fmt.Errorf("%s, step %d: residual %v", what, n, norm)
		}
		seen = max(seen, norm)
		state, err := v.(compress.Stateful).AppendBinary(nil)
		if err != nil {
			return err
		}
		again, err := fresh()
		if err != nil {
			return err
		}
		if err := again.(compress.Stateful).UnmarshalBinary(state); err != nil {
			return err
		}
		if got := compress.ResidualNorm(again); got != norm {
			return fmt.Errorf("%s, restarted at step %d: residual %v, was %v", what, n, got, norm)
		}
	}
	if seen == 0 {
		return fmt.Errorf("%s: it remembers, and its residual is 0 at every step", what)
	}
	return nil
}
