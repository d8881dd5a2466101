package compress

import (
	"math"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("vote", "the majority of signs", Vote{})

// Vote takes the majority of the ranks' signs.
//
//	ΣC(gᵢ) = n·sign(Σ sign(gᵢ)), so the mean over n ranks is ±1
//
// Bernstein et al. 2018 (arXiv 1802.04434), SignSGD with majority vote. Each
// rank counts the votes on a slice of the block and tells the others how they
// went: a bit an element each way, however many ranks there are. Every rank is
// credited with the outcome, an n-th of the sum. It is a direction without a
// length and no contraction, so feedback over it is refused.
//
// Departures: a tie goes to a side drawn at random, the same on all ranks, where
// sign(0) = 0 would need a third value; signs are those of sign. In mode gather
// and behind a server, which have no round to vote in, it is sign(scale=none):
// the mean of signs.
//
// Tuning: rates like Adam's, 1e-4 to 1e-3, and momentum inside a worker if at
// all.
//
// Cost: two bits an element and rank.
//
// Payload: sign bits.
type Vote struct{}

// Claims are those of signs, and what the exchange costs.
func (Vote) Claims(b Block) Claims {
	c := Sign{Scale: "none"}.Claims(b)
	if b.World < 2 {
		return c
	}
	c.Rounds = 2
	for j := range b.World {
		lo, hi := sliceBounds(b.Len(), 1, b.World, j)
		c.Asked += bits.SignLen(hi - lo)
	}
	return c
}

// New makes a codec without state.
func (Vote) New(b Block) (Codec, error) { return Sign{Scale: "none"}.New(b) }

// NewExchange makes an exchange of an all-to-all and a gather, none for a rank
// alone.
func (Vote) NewExchange(b Block) (Exchange, error) {
	if b.World < 2 {
		return nil, nil
	}
	return &voteExchange{
		d: b.Len(), rank: b.Rank, world: b.World, slices: make([][]byte, b.World), outcome: make([][]byte, b.World),
		key: stream("vote", b, false),
	}, nil
}

type voteExchange struct {
	d, rank, world int
	key            rng.Key

	step    int
	voted   bool
	slices  [][]byte // sign bits by owner; its own does not travel
	votes   []float32
	outcome [][]byte // by slice
}

func (x *voteExchange) bounds(j int) (lo, hi int) { return sliceBounds(x.d, 1, x.world, j) }

func (x *voteExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.d)
	for j := range x.slices {
		lo, hi := x.bounds(j)
		x.slices[j] = resize(x.slices[j], bits.SignLen(hi-lo))
		if sum, _ := codec.Signs(x.slices[j], g[lo:hi]); !(sum <= math.MaxFloat64) {
			return Op{}, ErrNotFinite
		}
	}
	x.step, x.voted = s.N, false
	return Op{Kind: OpScatter, Slices: x.slices}, nil
}

func (x *voteExchange) Next(done Op) (Op, error) {
	if len(done.Parts) != x.world {
		return Op{}, Corruptf("%d parts, want %d", len(done.Parts), x.world)
	}
	for from, part := range done.Parts {
		of := x.rank
		if x.voted {
			of = from
		} else if from == x.rank {
			continue
		}
		if lo, hi := x.bounds(of); !bits.SignsOK(part, hi-lo) {
			return Op{}, Corruptf("rank %d: %d bytes of signs, want %d", from, len(part), bits.SignLen(hi-lo))
		}
	}
	if x.voted {
		for j, part := range done.Parts {
			x.outcome[j] = append(x.outcome[j][:0], part...)
		}
		return Op{}, nil
	}
	lo, hi := x.bounds(x.rank)
	x.votes = resize(x.votes, hi-lo)
	clear(x.votes)
	for from, part := range done.Parts {
		if from == x.rank {
			part = x.slices[from]
		}
		f32.AddSigns(x.votes, 1, -1, part)
	}
	x.breakTies(lo)
	own := resize(x.outcome[x.rank], bits.SignLen(hi-lo))
	codec.Signs(own, x.votes)
	x.outcome[x.rank], x.voted = own, true
	return Op{Kind: OpGather, Bytes: own}, nil
}

// breakTies gives draw bits to elements with as many votes for as against; first
// is the place of the slice.
func (x *voteExchange) breakTies(first int) {
	if x.world%2 == 1 {
		return
	}
	key := x.key.With(uint64(x.step))
	for i, v := range x.votes {
		if v == 0 {
			at := uint64(first + i)
			x.votes[i] = float32(int(key.Uint64(at>>6)>>(at&63)&1)*2 - 1)
		}
	}
}

func (x *voteExchange) Output(dst []float32, scale float32) error {
	return x.lift(dst, scale*float32(x.world))
}

func (x *voteExchange) Credited(dst []float32, scale float32) error { return x.lift(dst, scale) }

// lift adds ±scale.
func (x *voteExchange) lift(dst []float32, scale float32) error {
	checkLen(len(dst), x.d)
	for j, signs := range x.outcome {
		lo, hi := x.bounds(j)
		f32.AddSigns(dst[lo:hi], scale, -scale, signs)
	}
	return nil
}
