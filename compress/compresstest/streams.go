package compresstest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gradlab/gradlab/compress"
)

// run is the payloads of a few steps on block b.
func run(f compress.Family, b compress.Block, steps int) ([][]byte, error) {
	c, err := newCoder(f, b)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for n := range steps {
		if err := c.encode(gaussian(b.Len(), n)); err != nil {
			return nil, err
		}
		out = append(out, bytes.Clone(c.payload))
	}
	return out, nil
}

// checkDeterminism: bytes depend on the address (seed, block, rank, step) and the
// input, not on the instance, the number of cores or what runs beside.
func checkDeterminism(f compress.Family) error {
	for _, d := range []int{0, 1, 65, 4097} {
		want, err := run(f, block(d), 4)
		if err != nil {
			return err
		}
		for _, procs := range []int{1, 2} {
			old := runtime.GOMAXPROCS(procs)
			var got [2][][]byte
			var errs [2]error
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() { got[i], errs[i] = run(f, block(d), 4) })
			}
			wg.Wait()
			runtime.GOMAXPROCS(old)
			for i := range got {
				if errs[i] != nil {
					return errs[i]
				}
				for n := range want {
					if !bytes.Equal(got[i][n], want[n]) {
						return fmt.Errorf("%d elements, step %d: other bytes on another run (GOMAXPROCS %d)", d, n, procs)
					}
				}
			}
		}
	}
	return nil
}

// meaning is what fixed bytes and a fixed input become at an address.
func meaning(f compress.Family, b compress.Block, step int) ([]float32, error) {
	c, err := newCoder(f, b)
	if err != nil {
		return nil, err
	}
	c.step = step
	err = c.code(gaussian(b.Len(), 0))
	return c.out, err
}

// checkStreams: a codec that draws, which shows when another seed changes the
// values or when it claims a random error, draws anew at every step, for every
// block and in each direction, and on every rank unless ranks must agree in order
// to be summed. One that does not draw may change by the step
// alone.
func checkStreams(f compress.Family) error {
	const d = 513
	b := block(d)
	claims, _ := compress.ClaimsOf(f, b)
	base, err := meaning(f, b, 0)
	if err != nil {
		return err
	}
	name, seed, dir, rank := b, b, b, b
	rank.Rank = 1
	name.Name, seed.Seed, dir.Dir = "layer.bias", b.Seed+1, compress.Down
	random := claims.Unbiased && claims.Omega > 0 && !math.IsInf(claims.Omega, 1)
	for _, at := range []struct {
		what string
		b    compress.Block
		step int
	}{{"seed", seed, 0}, {"step", b, 1}, {"block name", name, 0}, {"direction", dir, 0}, {"rank", rank, 0}} {
		if at.what == "rank" && claims.Linear != compress.NotLinear {
			continue
		}
		other, err := meaning(f, at.b, at.step)
		if err != nil {
			return err
		}
		same := equal(base, other)
		if at.what == "seed" && !same {
			random = true
		}
		if random && same {
			return fmt.Errorf("another %s, the same draws", at.what)
		}
		if !random && !same && at.what != "step" {
			return fmt.Errorf("another %s changes the decoded values, another seed does not", at.what)
		}
	}
	if random && !claims.Stateful {
		if err := unrelated(f); err != nil {
			return err
		}
	}
	return exchangedStreams(f)
}

// exchangedStreams: an exchange that draws, which shows when another seed changes what it
// ends with, draws anew at every step and at every place, and what travels as whole
// numbers is rounded by each rank for itself. So errors of equal gradients, and of equal
// chunks, do not add up. Columns of a matrix share the draws of a factor.
func exchangedStreams(f compress.Family) error {
	const d = 1 << 13
	g := gaussian(d/2, 0)
	g = append(g, g...)
	ends := func(seed uint64, step int) (r *ring, out []float32, err error) {
		b := block(d)
		b.Seed += seed
		if r, err = newRingOn(f, b); err != nil {
			return nil, nil, err
		}
		if err = r.at(compress.Step{N: step, Seed: b.Seed}, [][]float32{g, g, g}); err != nil {
			return nil, nil, err
		}
		out = make([]float32, d)
		return r, out, r.ex[0].Output(out, 1)
	}
	r, base, err := ends(0, 0)
	if err != nil {
		return err
	}
	_, other, err := ends(1, 0)
	if err != nil || equal(base, other) {
		return err
	}
	if _, other, err = ends(0, 1); err != nil {
		return err
	}
	claims, _ := compress.ClaimsOf(f, block(d))
	switch {
	case equal(base, other):
		return fmt.Errorf("exchanged at another step, the same draws")
	case !claims.Shaped && equal(base[:d/2], base[d/2:]):
		return fmt.Errorf("exchanged, the same draws in both halves of a block")
	case !slices.ContainsFunc(r.asked, func(a Asked) bool { return strings.HasPrefix(a.Wire, "i") }):
		return nil
	}
	first, second := make([]float32, d), make([]float32, d)
	if err := errors.Join(r.ex[0].Credited(first, 1), r.ex[1].Credited(second, 1)); err != nil {
		return err
	}
	if equal(first, second) {
		return fmt.Errorf("two ranks round equal gradients with the same draws")
	}
	return nil
}

// unrelated: what is drawn for one element says nothing of another, above all not a
// whole group of elements further on, where kernels begin anew.
func unrelated(f compress.Family) error {
	const d = 1 << 14
	b := compress.Block{Name: "layer.weight", Rows: 1, Cols: d, World: 1, Peer: -1, Seed: 2026}
	c, err := newCoder(f, b)
	if err != nil {
		return err
	}
	g := gaussian(d, 0)
	for i, v := range g { // errors go with the sign
		g[i] = float32(math.Abs(float64(v)))
	}
	off := make([]float64, d)
	mean, square := 0.0, 0.0
	if err := c.code(g); err != nil {
		return err
	}
	for i, v := range c.out {
		off[i] = float64(v) - float64(g[i])
		mean += off[i] / d
	}
	for i := range off {
		off[i] -= mean
		square += off[i] * off[i] / d
	}
	for lag := 1; lag <= d/2 && square > 0; lag *= 2 {
		sum := 0.0
		for i := range d - lag {
			sum += off[i] * off[i+lag]
		}
		if n := float64(d - lag); math.Abs(sum/n) > 7*square/math.Sqrt(n) {
			return fmt.Errorf("errors of elements %d apart go together: correlation %.3g", lag, sum/n/square)
		}
	}
	return nil
}
