package compresstest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gradlab/gradlab/compress"
)

// checkCast: Claims.Cast is claimed where every value travels alone, as it is, and
// nowhere else. A short block may be one by its length alone, and is not asked.
func checkCast(f compress.Family) error {
	for _, d := range []int{1, 2, 8, 65, 513} {
		b := block(d)
		claims, ok := compress.ClaimsOf(f, b)
		if claims.Stateful || !ok {
			if claims.Cast {
				return fmt.Errorf("%d elements: claims a cast and a state; a value alone depends on no step before", d)
			}
			continue
		}
		is, err := compress.CastOn(f, b)
		switch {
		case err != nil:
			return fmt.Errorf("%d elements: %w", d, err)
		case claims.Cast && !is:
			return fmt.Errorf("%d elements: claims a cast, but not every value travels alone, in as many bytes as others, to within 2⁻⁷; drop Cast", d)
		case !claims.Cast && is && d > 8:
			return fmt.Errorf("%d elements: every value travels alone, as it is: claim Cast", d)
		}
	}
	return nil
}

// checkInner: families that f's options hold are listed by Inner, so that what is asked
// of them is asked, and a block is handed to one of these.
func checkInner(f compress.Family) error {
	var listed []compress.Family
	if w, ok := f.(compress.Wrapper); ok {
		listed = w.Inner()
	}
	has := func(in compress.Family) bool {
		return slices.ContainsFunc(listed, func(have compress.Family) bool { return reflect.DeepEqual(have, in) })
	}
	for _, in := range compress.Inside(f) {
		if in == nil {
			return errors.New("Inner lists a family that is nil")
		}
		if !has(in) {
			return fmt.Errorf("an option holds %s, which Inner does not list: implement compress.Wrapper", compress.Spec(in))
		}
	}
	c, ok := f.(interface {
		Choose(compress.Block) compress.Family
	})
	if !ok {
		return nil
	}
	for _, b := range shapes() {
		if in := c.Choose(b); in == nil || !has(in) {
			return fmt.Errorf("%d×%d: Choose gives a family that Inner does not list", b.Rows, b.Cols)
		}
	}
	return nil
}

// checkMemory: Claims.Remembers is claimed where what is left out is sent in later
// steps, and nowhere else. A codec with a receiver keeps an estimate of the sum, and
// has nothing to make up for.
func checkMemory(f compress.Family) error {
	for _, d := range []int{65, 513, 4096} {
		b := block(d)
		claims, ok := compress.ClaimsOf(f, b)
		switch r, err := compress.NewReceiver(f, b); {
		case err != nil:
			return err
		case r != nil && claims.Remembers:
			return fmt.Errorf("%d elements: claims a memory, but has a receiver that keeps the same; drop Remembers", d)
		case r != nil:
			continue
		case ok && !claims.Stateful:
			if claims.Remembers {
				return fmt.Errorf("%d elements: claims a memory and no state to keep it in; drop Remembers, or claim Stateful", d)
			}
			continue
		}
		scales := 5
		if claims.Remembers { // of a threshold anywhere
			scales = 11
		}
		is, err := compress.MemoryOn(f, b, scales)
		switch {
		case err != nil:
			return fmt.Errorf("%d elements: %w", d, err)
		case claims.Remembers && !is:
			return fmt.Errorf("%d elements: claims a memory, but nothing of what it leaves out is in later steps; drop Remembers", d)
		case !claims.Remembers && is:
			return fmt.Errorf("%d elements: what it leaves out is sent in later steps, and it does not claim so: claim Remembers", d)
		}
	}
	return nil
}

// warmSteps is how many payloads tell how long they are at the beginning of a run, and
// late is a step and an epoch behind every warm-up.
const (
	warmSteps = 12
	late      = 1 << 24
)

// checkWarmUp: Claims.WarmsUp is claimed where payloads of the first steps are longer than
// those of steps at the end of a long run, and only there. A tenth must show; that it is
// less than a half may be left out.
func checkWarmUp(f compress.Family) error {
	for _, d := range []int{513, 4096} {
		b := block(d)
		claims, _ := compress.ClaimsOf(f, b)
		var bytes [2]int
		for i, at := range []int{0, late} {
			c, err := f.New(b)
			if err != nil {
				return err
			}
			for n := range warmSteps {
				p, err := c.Append(nil, gaussian(d, n), compress.Step{N: at + n, Epoch: float64(at), Seed: b.Seed})
				if err != nil {
					return fmt.Errorf("%d elements, step %d: %w", d, at+n, err)
				}
				bytes[i] += len(p)
			}
		}
		switch first, last := float64(bytes[0]), float64(bytes[1]); {
		case claims.WarmsUp && first < 1.1*last:
			return fmt.Errorf("%d elements: claims a warm-up, but the first %d payloads have %d bytes together, and %d late in a run; drop WarmsUp", d, warmSteps, bytes[0], bytes[1])
		case !claims.WarmsUp && first > 1.5*last:
			return fmt.Errorf("%d elements: the first %d payloads have %d bytes together, and %d late in a run: claim WarmsUp", d, warmSteps, bytes[0], bytes[1])
		}
	}
	return nil
}

// checkSums: Claims.HalfSums is claimed where the exchange sums values in two bytes, and
// nowhere else. Where payloads are gathered, nothing is summed.
func checkSums(f compress.Family) error {
	for _, d := range []int{65, 513} {
		r, err := newRing(f, d)
		if err != nil {
			return err
		}
		if r.road == compress.RoadGather {
			continue
		}
		halves := false
		for n := range warmSteps {
			g := make([][]float32, world)
			for rank := range g {
				g[rank] = gaussian(d, n*world+rank)
			}
			if err := r.step(n, g); err != nil {
				return err
			}
			for _, a := range r.asked {
				halves = halves || a.Op == "sum" && a.Elements > 0 && (a.Wire == "fp16" || a.Wire == "bf16")
			}
		}
		if claims, ok := compress.ClaimsOf(f, block(d)); ok && claims.HalfSums != halves {
			return fmt.Errorf("%d elements: sums values in two bytes: %t, claims: %t (HalfSums)", d, halves, claims.HalfSums)
		}
	}
	return nil
}
