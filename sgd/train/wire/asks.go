package wire

import (
	"errors"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

var errInexact = errors.New("the size of its payloads depends on the data, or on the rank, which a run without weights cannot know; take one of fixed size, such as topk(index=raw32)")

// Ask is one operation that the exchange of a block asks for, by its size.
type Ask struct {
	Kind   compress.OpKind
	Wire   compress.Wire
	N      int   // elements of a sum or maximum, bytes of a payload for everybody
	Slices []int // bytes for each rank
}

// Need is what the exchange of a block asks for in a step.
type Need struct {
	Ops      []Ask // in every step and on every rank
	Noted    bool  // in place of Ops Content.Sizes has them
	Gathered bool  // a payload that everybody decodes: the block has no other road
}

// SumsPlain says whether the gradient itself is summed: codec f sends it as it is, and
// has no exchange of its own.
func SumsPlain(f compress.Family) bool {
	return compress.Plain(f) && compress.Everywhere(f, func(c compress.Claims) bool { return c.Linear == compress.FloatSum && c.Rounds == 0 })
}

// AsksOf is what the exchange of a block asks for. It finds out by exchanging a gradient with nobody. Payloads that are
// gathered have the size their codec claims.
func (c Content) AsksOf(f compress.Family, b compress.Block, gather bool) (Need, error) {
	if !gather && SumsPlain(f) {
		return Need{Ops: []Ask{{Kind: compress.OpSum, N: b.Len()}}}, nil
	}
	var ex compress.Exchange
	road := compress.RoadGather
	if !gather {
		var err error
		if ex, road, err = compress.NewExchange(f, b); err != nil {
			return Need{}, err
		}
	}
	claims, _ := compress.ClaimsOf(f, b)
	a := Need{Gathered: road == compress.RoadGather}
	switch {
	case !Fixed(f, b, road):
		if a.Noted = c.Sizes != nil; !a.Noted {
			return a, errInexact
		}
		return a, nil
	case a.Gathered:
		a.Ops = []Ask{{Kind: compress.OpGather, N: claims.Size}}
		return a, nil
	}
	g := make([]float32, b.Len())
	k := rng.New(b.Seed, "weightless")
	for i := range g {
		g[i] = k.Float32(uint64(i)) - 0.5
	}
	op, err := ex.Begin(g, compress.Step{Seed: b.Seed})
	for ; err == nil && op.Kind != compress.OpNone; op, err = ex.Next(op) {
		switch op.Kind {
		case compress.OpSum, compress.OpMax:
			a.Ops = append(a.Ops, Ask{Kind: op.Kind, Wire: op.Wire, N: len(op.Floats)})
		case compress.OpGather:
			a.Ops = append(a.Ops, Ask{Kind: op.Kind, N: len(op.Bytes) + lengthOf(len(op.Bytes))})
			op.Parts = nil
			for range b.World {
				op.Parts = append(op.Parts, op.Bytes)
			}
		default:
			return a, errors.New("a run without weights knows sums and gathers only")
		}
	}
	return a, err
}

// Fixed says whether the exchange of a block asks for the same in every step,
// whatever the data and the rank.
func Fixed(f compress.Family, b compress.Block, road compress.Road) bool {
	claims, ok := compress.ClaimsOf(f, b)
	if road == compress.RoadOwn { // what it asks for counts, and on all ranks alike
		return ok && (claims.Exact || claims.Rounds > 0) && !claims.AskedBound
	}
	return ok && claims.Exact
}
