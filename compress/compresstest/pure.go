package compresstest

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"

	"github.com/gradlab/gradlab/compress"
)

// checkPure: Append leaves its source and what is in dst alone and reads nothing
// behind the source; AddTo adds, scales, and does the same thing twice.
func checkPure(f compress.Family) error {
	for _, d := range lengths[:12] {
		c, err := newCoder(f, block(d))
		if err != nil {
			return err
		}
		ref, err := newCoder(f, block(d))
		if err != nil {
			return err
		}
		for n := range 3 {
			g := gaussian(d, n)
			wide := append(append([]float32(nil), g...), 1e30, -1e30) // a neighbour in memory
			dst := append(make([]byte, 0, 3+8*d+64), "abc"...)
			out, err := c.Append(dst, wide[:d], compress.Step{N: n, Seed: c.block.Seed})
			if err != nil {
				return err
			}
			if !equal(wide[:d], g) || wide[d] != 1e30 {
				return fmt.Errorf("%d elements: Append changed its source", d)
			}
			if string(out[:3]) != "abc" {
				return fmt.Errorf("%d elements: Append changed what was in dst", d)
			}
			if err := ref.encode(g); err != nil {
				return err
			}
			if !bytes.Equal(out[3:], ref.payload) {
				return fmt.Errorf("%d elements, step %d: bytes depend on what surrounds source or dst", d, n)
			}
			if err := pureDecode(ref); err != nil {
				return fmt.Errorf("%d elements: %w", d, err)
			}
		}
	}
	return nil
}

func pureDecode(c *coder) error {
	from := compress.From{Rank: c.block.Rank, Step: c.step - 1}
	kept := bytes.Clone(c.payload)
	if err := c.decode(); err != nil {
		return err
	}
	for _, t := range []struct {
		scale float32
		times int
		want  float32
	}{{1, 2, 2}, {-1, 1, -1}, {0.5, 1, 0.5}, {0, 1, 0}} {
		got := make([]float32, len(c.out))
		for range t.times {
			if err := c.AddTo(got, t.scale, c.payload, from); err != nil {
				return err
			}
		}
		for i, v := range got {
			if v != t.want*c.out[i] {
				return fmt.Errorf("AddTo %d times with scale %v gives %v at %d, want %v", t.times, t.scale, v, i, t.want*c.out[i])
			}
		}
	}
	if !bytes.Equal(kept, c.payload) {
		return fmt.Errorf("AddTo changed the payload")
	}
	return nil
}

// checkConcurrent: AddTo may run beside itself. Under the race detector this
// finds shared scratch; without it, wrong values.
func checkConcurrent(f compress.Family) error {
	const d = 513
	c, err := newCoder(f, block(d))
	if err != nil {
		return err
	}
	if err := c.code(gaussian(d, 0)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var bad [4]bool
	for i := range bad {
		wg.Go(func() {
			got := make([]float32, d)
			for range 20 {
				clear(got)
				err := c.AddTo(got, 1, c.payload, compress.From{Step: 0})
				bad[i] = bad[i] || err != nil || !equal(got, c.out)
			}
		})
	}
	wg.Wait()
	for _, b := range bad {
		if b {
			return fmt.Errorf("AddTo gives something else beside other calls of AddTo")
		}
	}
	return nil
}

// allocations is how many there are in a call of f, of ten after a first one. Nothing else
// may run meanwhile.
func allocations(f func()) float64 {
	const times = 10
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / times) // whole ones, as those of others are few
}

// checkAllocations: once warm, encoding into enough capacity and decoding
// allocate nothing. Under the race detector a sync.Pool drops some of what it is given,
// so that nothing is counted there.
func checkAllocations(f compress.Family) error {
	if raceDetector {
		return nil
	}
	for _, d := range []int{65, 4097} {
		c, err := newCoder(f, block(d))
		if err != nil {
			return err
		}
		g := gaussian(d, 0)
		claims, ok := compress.ClaimsOf(f, block(d))
		if ok {
			c.payload = make([]byte, 0, claims.Size)
		}
		for range 3 {
			if err := c.code(g); err != nil {
				return err
			}
		}
		n := allocations(func() {
			if e := c.code(g); e != nil {
				err = e
			}
		})
		if err != nil {
			return err
		}
		if n > float64(claims.Allocs) {
			return fmt.Errorf("%d elements: %v allocations a step, claims %d", d, n, claims.Allocs)
		}
	}
	return nil
}
