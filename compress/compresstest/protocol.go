package compresstest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

// checkProtocol: an exchange that is given NaN refuses it and goes on as if it
// had never seen it; one that is answered with something else than it asked for
// returns an error that says so, or numbers, and never panics.
func checkProtocol(f compress.Family) error {
	for _, d := range []int{1, 65, 513} {
		if err := refusesNaN(f, d); err != nil {
			return fmt.Errorf("%d elements: %w", d, err)
		}
		for round := range 8 {
			more := false
			for _, lie := range lies {
				reached, err := lieTo(f, d, round, lie.tell)
				if err != nil {
					return fmt.Errorf("%d elements, round %d, %s: %w", d, round, lie.name, err)
				}
				more = more || reached
			}
			if !more {
				break
			}
		}
	}
	return nil
}

// refusesNaN compares a ring that is offered NaN to one that is not.
func refusesNaN(f compress.Family, d int) error {
	if propagates(f, block(d)) {
		return nil
	}
	a, err := newRing(f, d)
	if err != nil {
		return err
	}
	b, err := newRing(f, d)
	if err != nil {
		return err
	}
	for n := range 4 {
		bad := gaussian(d, 100+n)
		bad[n*(d-1)/3] = float32([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[n%3])
		for rank, x := range a.ex {
			if _, err := x.Begin(bad, compress.Step{N: n, Seed: block(0).Seed}); !errors.Is(err, compress.ErrNotFinite) {
				return fmt.Errorf("rank %d, step %d: Begin with %v returns %v, want ErrNotFinite", rank, n, bad[n*(d-1)/3], err)
			}
		}
		g := make([][]float32, world)
		for rank := range g {
			g[rank] = gaussian(d, 10*n+rank)
		}
		if err := errors.Join(a.step(n, g), b.step(n, g)); err != nil {
			return err
		}
		if !bytes.Equal(bytes.Join(a.log, nil), bytes.Join(b.log, nil)) {
			return fmt.Errorf("step %d: other bytes after a refusal", n)
		}
	}
	return nil
}

// lies are wrong answers to an operation; ok is false if there is no such answer
// to it.
var lies = []struct {
	name string
	tell func(op *compress.Op) (must, ok bool)
}{
	{"a sum that is short", func(op *compress.Op) (bool, bool) {
		n := len(op.Floats)
		if n > 0 {
			op.Floats = op.Floats[:n-1]
		}
		return true, n > 0
	}},
	{"a sum that is NaN", func(op *compress.Op) (bool, bool) {
		for i := range op.Floats {
			op.Floats[i] = float32(math.NaN())
		}
		return true, len(op.Floats) > 0
	}},
	{"a sum that overflowed", func(op *compress.Op) (bool, bool) {
		for i := range op.Floats {
			op.Floats[i] = float32(math.Inf(1))
		}
		return true, len(op.Floats) > 0
	}},
	{"a rank too few", func(op *compress.Op) (bool, bool) {
		op.Parts = op.Parts[:max(0, len(op.Parts)-1)]
		return true, asksForBytes(op)
	}},
	{"a part with bytes behind it", func(op *compress.Op) (bool, bool) {
		if asksForBytes(op) {
			op.Parts[1] = append(bytes.Clone(op.Parts[1]), make([]byte, 40)...)
		}
		return false, asksForBytes(op)
	}},
	{"a part that is cut", func(op *compress.Op) (bool, bool) {
		if asksForBytes(op) {
			op.Parts[1] = op.Parts[1][:len(op.Parts[1])/2]
		}
		return false, asksForBytes(op)
	}},
	{"parts of random bytes", func(op *compress.Op) (bool, bool) {
		key := rng.New(8, "compresstest/lies")
		for r := range op.Parts {
			p := make([]byte, len(op.Parts[r]))
			for i := range p {
				p[i] = byte(key.Uint64(uint64(r<<20 + i)))
			}
			op.Parts[r] = p
		}
		return false, asksForBytes(op)
	}},
}

func asksForBytes(op *compress.Op) bool {
	return op.Kind == compress.OpGather || op.Kind == compress.OpScatter
}

// lieTo plays an honest step up to a round and then tells rank 0 a lie, which it
// must notice where tell says so. reached is false if no round of that number
// offers the occasion.
func lieTo(f compress.Family, d, round int, tell func(*compress.Op) (must, ok bool)) (reached bool, err error) {
	r, err := newRing(f, d)
	if err != nil {
		return false, err
	}
	ops := make([]compress.Op, world)
	for rank, x := range r.ex {
		if ops[rank], err = x.Begin(gaussian(d, rank), compress.Step{N: 1, Seed: block(0).Seed}); err != nil {
			return false, err
		}
	}
	for range round {
		if ops[0].Kind == compress.OpNone {
			return false, nil
		}
		Perform(ops)
		for rank, x := range r.ex {
			if ops[rank], err = x.Next(ops[rank]); err != nil {
				return false, err
			}
		}
	}
	if ops[0].Kind == compress.OpNone {
		return false, nil
	}
	Perform(ops)
	must, ok := tell(&ops[0])
	if !ok || propagates(f, block(d)) && ops[0].Kind != compress.OpGather {
		return ops[0].Kind != compress.OpNone, nil
	}
	return true, guard(func() error {
		op, err := r.ex[0].Next(ops[0])
		switch {
		case err == nil && must:
			out := make([]float32, d)
			if op.Kind == compress.OpNone {
				err = r.ex[0].Output(out, 1)
			}
			if err == nil {
				return fmt.Errorf("rank 0 believes it")
			}
		case err == nil:
			return nil
		}
		if !errCorrupt(err) && !errors.Is(err, compress.ErrNotFinite) {
			return fmt.Errorf("%w wraps neither ErrCorrupt nor ErrNotFinite", err)
		}
		return nil
	})
}
