package wire

import (
	"time"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Tariff is what coding the pieces of a shard takes, added up from the first piece
// on: the cost of pieces [lo, hi) is a difference. nil: nothing.
type Tariff struct{ enc, dec []time.Duration }

// Encode is the virtual time in which pieces lo … hi − 1 are encoded.
func (t *Tariff) Encode(lo, hi int) time.Duration {
	if t == nil {
		return 0
	}
	return t.enc[hi] - t.enc[lo]
}

// Decode is the virtual time in which they are decoded.
func (t *Tariff) Decode(lo, hi int) time.Duration {
	if t == nil {
		return 0
	}
	return t.dec[hi] - t.dec[lo]
}

// NewTariff makes the tariff of so many pieces of which price tells what encoding and
// decoding take.
func NewTariff(pieces int, price func(i int) (enc, dec time.Duration)) *Tariff {
	t := &Tariff{make([]time.Duration, pieces+1), make([]time.Duration, pieces+1)}
	for i := range pieces {
		enc, dec := price(i)
		t.enc[i+1], t.dec[i+1] = t.enc[i]+enc, t.dec[i]+dec
	}
	return t
}

// Coding is what is done to a piece with codec f.
func (pc *Piece) Coding(f compress.Family, world int) timing.Coding {
	b := pc.Block
	b.World = world
	return timing.Coding{Codec: pc.Family(f), Block: b}
}

// Encoding is the virtual time in which the payload of a part is made.
func (p *Packer) Encoding(pt Part, flat bool) time.Duration {
	if _, whole := pt.stretch(flat); whole && p.Raw {
		return 0 // it is that memory
	}
	return p.Tariff.Encode(pt.Lo, pt.Hi)
}

// Decoding is the virtual time in which the payload of a part is decoded and
// added to a vector.
func (p *Packer) Decoding(pt Part) time.Duration { return p.Tariff.Decode(pt.Lo, pt.Hi) }
