package compress

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

// Road is the way a block's encodings are combined over the ranks.
type Road string

const (
	RoadSum    Road = "sum"    // element-wise sums of wire vectors: all-reduce
	RoadGather Road = "gather" // everybody gets every payload
	RoadOwn    Road = "own"    // operations of the codec's own choosing
)

// NewExchange makes the exchange of block b and says which road it takes: a
// family's own if it is an Exchanger, sums if its codec is Linear, else gather.
// A memory (Around: feedback, ef21, accumulate) takes the road of the codec inside, a
// Chooser (bysize, byrole) that of the codec chosen.
// b.Rank and b.World must be set. An exchange with state is Stateful, one with
// error feedback a Residualer.
func NewExchange(f Family, b Block) (Exchange, Road, error) { return newExchange(f, b, false) }

// NewGather makes an exchange that gathers payloads even where they could be
// summed, for comparisons.
func NewGather(f Family, b Block) (Exchange, error) {
	x, _, err := newExchange(f, b, true)
	return x, err
}

func newExchange(f Family, b Block, gather bool) (Exchange, Road, error) {
	if b.Rank < 0 || b.Rank >= b.World {
		return nil, "", fmt.Errorf("exchange of %q: rank %d of %d", b.Name, b.Rank, b.World)
	}
	if err := validate(f); err != nil {
		return nil, "", err
	}
	if a, ok := f.(Around); ok {
		road := RoadOwn
		x, err := a.NewAround(f, b, func(in Family) (x Exchange, _ Road, err error) {
			x, road, err = newExchange(in, b, gather)
			return x, road, err
		})
		switch {
		case err != nil:
			return nil, "", err
		case x != nil:
			return x, road, nil
		}
	}
	switch f := f.(type) {
	case Chooser:
		return newExchange(f.Choose(b), b, gather)
	case Exchanger:
		if gather {
			break
		}
		if x, err := f.NewExchange(b); x != nil || err != nil {
			return x, RoadOwn, err
		}
	case ReceiverFamily:
		x, err := newReceiverExchange(f.(Family), f, b)
		return x, RoadGather, err
	}
	if err := received(f); err != nil {
		return nil, "", err
	}
	c, err := f.New(b)
	if err != nil {
		return nil, "", err
	}
	if l, ok := c.(Linear); ok && !gather {
		return withState(&sumExchange{c: l}, c), RoadSum, nil
	}
	return withState(&gatherExchange{c: c, rank: b.Rank, world: b.World}, c), RoadGather, nil
}

// withState makes the codec's state that of the exchange, and its residual.
func withState(x Exchange, c Codec) Exchange {
	s, ok := c.(Stateful)
	if !ok {
		return x
	}
	if o, ok := c.(Owing); ok {
		return struct {
			Exchange
			Stateful
			Owing
		}{x, s, o}
	}
	if r, ok := c.(Residualer); ok {
		return struct {
			Exchange
			Stateful
			Residualer
		}{x, s, r}
	}
	return struct {
		Exchange
		Stateful
	}{x, s}
}

// sumExchange sends the wire vector of a linear codec through one sum.
type sumExchange struct {
	c        Linear
	own, sum []float32 // the contribution, and where it is summed
	got      []float32 // the sum
	step     Step
}

func (x *sumExchange) Begin(g []float32, s Step) (Op, error) {
	n := x.c.WireLen()
	x.own, x.sum, x.step = resize(x.own, n), resize(x.sum, n), s
	if err := x.c.Project(x.own, g, s); err != nil {
		return Op{}, err
	}
	copy(x.sum, x.own)
	return Op{Kind: OpSum, Floats: x.sum, Wire: x.c.Wire()}, nil
}

func (x *sumExchange) Next(done Op) (Op, error) {
	if len(done.Floats) != len(x.sum) {
		return Op{}, Corruptf("sum of %d elements, want %d", len(done.Floats), len(x.sum))
	}
	x.got = done.Floats
	return Op{}, nil
}

func (x *sumExchange) Output(dst []float32, scale float32) error {
	return x.c.Lift(dst, scale, x.got, x.step)
}

func (x *sumExchange) Credited(dst []float32, scale float32) error {
	return x.c.Lift(dst, scale, x.own, x.step)
}

// gatherExchange sends the payload of any codec to everybody. Payloads are
// decoded in rank order when they arrive; Parts are not kept.
type gatherExchange struct {
	c           Codec
	rank, world int
	own         []byte
	sum         []float32
	step        int
}

func (x *gatherExchange) Begin(g []float32, s Step) (Op, error) {
	var err error
	if x.own, err = x.c.Append(x.own[:0], g, s); err != nil {
		return Op{}, err
	}
	x.step, x.sum = s.N, resize(x.sum, len(g))
	return Op{Kind: OpGather, Bytes: x.own}, nil
}

func (x *gatherExchange) Next(done Op) (Op, error) {
	if len(done.Parts) != x.world {
		return Op{}, Corruptf("%d parts, want %d", len(done.Parts), x.world)
	}
	clear(x.sum)
	for rank, part := range done.Parts {
		if err := x.c.AddTo(x.sum, 1, part, From{Rank: rank, Step: x.step}); err != nil {
			return Op{}, fmt.Errorf("payload of rank %d: %w", rank, err)
		}
	}
	return Op{}, nil
}

func (x *gatherExchange) Output(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.sum)
	return nil
}

func (x *gatherExchange) Credited(dst []float32, scale float32) error {
	return x.c.AddTo(dst, scale, x.own, From{Rank: x.rank, Step: x.step})
}
