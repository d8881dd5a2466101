package hook

import (
	"bytes"
	"fmt"

	"github.com/gradlab/gradlab/compress"
)

// cast is the exchange of a codec whose payload is its wire vector: every value in two
// bytes, summed. Then encoding is a pass from the gradient to the bytes that are summed,
// and decoding one from the sums to the gradient, with nothing in between.
type cast struct {
	c        compress.Linear
	own, sum []byte
}

// newCast is nil for other codecs. What claims do not say, that the bytes are those of
// the wire, is tried on some values.
func newCast(f compress.Family, of compress.Block, road compress.Road) (*cast, error) {
	claims, ok := compress.ClaimsOf(f, of)
	if !ok || !claims.Cast || !claims.HalfSums || road != compress.RoadSum {
		return nil, nil
	}
	made, err := f.New(of)
	if err != nil {
		return nil, err
	}
	c, ok := made.(compress.Linear)
	if _, stateful := made.(compress.Stateful); !ok || stateful || c.WireLen() != of.Len() {
		return nil, nil
	}
	probe, wire := make([]float32, of.Len()), make([]float32, of.Len())
	for i := range probe {
		probe[i] = float32(i%97-48) / 31
	}
	step := compress.Step{Seed: of.Seed}
	payload, err := c.Append(nil, probe, step)
	if err != nil {
		return nil, err
	}
	if err := c.Project(wire, probe, step); err != nil {
		return nil, err
	}
	want := make([]byte, len(wire)*c.Wire().Bytes())
	if wires[c.Wire()].put(want, wire); !bytes.Equal(payload, want) {
		return nil, nil
	}
	return &cast{c: c}, nil
}

// elements is how many an operation of the block sums.
func (b *block) elements(op *compress.Op) int {
	if b.cast != nil {
		return b.of.Len()
	}
	return len(op.Floats)
}

func (b *block) begin(g []float32, s compress.Step) (_ compress.Op, err error) {
	if b.cast == nil {
		return b.ex.Begin(g, s)
	}
	b.cast.own, err = b.cast.c.Append(b.cast.own[:0], g, s)
	b.cast.sum = b.cast.sum[:0]
	return compress.Op{Kind: compress.OpSum, Wire: b.cast.c.Wire()}, err
}

func (b *block) next(done compress.Op) (compress.Op, error) {
	switch {
	case b.cast == nil:
		return b.ex.Next(done)
	case len(b.cast.sum) == 0:
		return compress.Op{}, fmt.Errorf("a sum is missing: %w", compress.ErrCorrupt)
	}
	return compress.Op{}, nil
}

func (b *block) output(dst []float32, scale float32) error {
	if b.cast == nil {
		return b.ex.Output(dst, scale)
	}
	if b.cast.c.AddTo(dst, scale, b.cast.sum, compress.From{}) != nil {
		return fmt.Errorf("%w: the sum over the ranks is beyond the range of two bytes; take bf16, or scale the loss", compress.ErrNotFinite)
	}
	return nil
}
