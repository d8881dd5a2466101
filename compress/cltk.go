package compress

import (
	"encoding/binary"

	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("cltk", "the k largest entries of a leader that changes every step; sums",
	CLTK{Keep: 0.01, Index: "rice", Values: "f32"})

// CLTK lets the ranks take turns in choosing the elements that all of them send.
//
//	leader = turn mod world;  S = the leader's k largest   (a gather of one payload)
//	C(g)ᵢ = gᵢ if i ∈ S, else 0, on every rank              (a sum of k values)
//
// Chen et al. 2020 (ScaleCom, arXiv 2104.11125), algorithm 1, the cyclic local
// top-k. Residuals of the ranks are alike, so one rank's choice is nearly that
// of all, and what is sent is summed instead of gathered. Its size does not grow
// with the ranks. Their low-pass memory is feedback's lowpass = 1−β. A rank is
// credited with its own values at the leader's positions. On foreign positions
// it may have nothing, so the contraction of topk, claimed here, holds at its
// own turns; at others the error is at most ‖g‖².
//
// Departures: indices are Rice coded; chunk picks in chunks, as theirs does, but
// exactly. Behind a server, which hears one rank at a time, it is topk: each
// rank's own choice.
//
// Tuning: feedback(cltk(keep=0.01),lowpass=0.9), lowpass=0 at small rates.
//
// Cost: k·4 bytes a rank and hop, k·1.0 more for the leader at 1 %, whose
// selection the others wait for.
type CLTK struct {
	Keep   float64 `spec:",show" doc:"fraction kept, in (0, 1]"`
	Index  string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values string  `doc:"value format: f32, bf16 or fp16"`
	Chunk  int     `doc:"elements chosen among by themselves; 0: the whole block"`
}

func (f CLTK) alone() TopK {
	return TopK{Keep: f.Keep, Index: f.Index, Values: f.Values, Chunk: f.Chunk}
}

// Validate checks the options.
func (f CLTK) Validate() error {
	if err := oneOf("index", f.Index, indexCodings...); err != nil {
		return err
	}
	return f.alone().Validate()
}

// Claims are those of topk, and what the exchange costs.
func (f CLTK) Claims(b Block) Claims {
	c := f.alone().Claims(b)
	if k := f.alone().total(b.Len()); k < b.Len() {
		size, _ := indexSize(word(f.Index, "rice"), k, b.Len())
		c.Rounds, c.Asked, c.AskedBound = 2, k*formatOf(f.Values).size+size, true
		c.HalfSums = formatOf(f.Values) != &formatF32
	}
	return c
}

// New makes a codec without state.
func (f CLTK) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.alone().New(b)
}

// NewExchange makes an exchange of a gather, to which the leader alone gives
// bytes, and a sum; none if everything is kept.
func (f CLTK) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil || f.alone().total(b.Len()) == b.Len() {
		return nil, err
	}
	c, err := f.alone().New(b)
	if err != nil {
		return nil, err
	}
	in := c.(*topK)
	return &cltkExchange{picked: picked{d: b.Len(), values: in.values}, in: in, rank: b.Rank, world: b.World}, nil
}

// cltkExchange has the turn for its state.
type cltkExchange struct {
	picked
	in          *topK
	rank, world int
	turn        uint32 // exchanges so far: steps may be left out
	leader      int
	g           []float32
	payload     []byte
	asked       bool // for the sum
}

func (x *cltkExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.d)
	if !f32.AllFinite(g) {
		return Op{}, ErrNotFinite
	}
	x.g = resize(x.g, x.d)
	copy(x.g, g)
	x.leader, x.asked = int(x.turn%uint32(x.world)), false
	op := Op{Kind: OpGather}
	if x.rank == x.leader {
		var err error
		if x.payload, err = x.in.Append(x.payload[:0], g, s); err != nil {
			return Op{}, err
		}
		op.Bytes = x.payload[x.in.k*x.values.size:] // values come first, then indices
	}
	return op, nil
}

func (x *cltkExchange) Next(done Op) (Op, error) {
	if x.asked {
		x.turn++
		return Op{}, x.take(done)
	}
	if len(done.Parts) != x.world {
		return Op{}, Corruptf("%d parts, want %d", len(done.Parts), x.world)
	}
	for rank, part := range done.Parts {
		if rank != x.leader && len(part) > 0 {
			return Op{}, Corruptf("rank %d chose too, it is the turn of %d", rank, x.leader)
		}
	}
	at, err := readIndices(done.Parts[x.leader], x.in.index, x.in.k, x.d)
	if err != nil {
		return Op{}, err
	}
	x.idx = append(x.idx[:0], at.idx...)
	at.release()
	x.asked = true
	return x.ask(x.g), nil
}

// AppendBinary appends the turn.
func (x *cltkExchange) AppendBinary(b []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint32(b, x.turn), nil
}

// UnmarshalBinary restores it.
func (x *cltkExchange) UnmarshalBinary(b []byte) error {
	if len(b) != 4 {
		return Corruptf("turn of %d bytes, want 4", len(b))
	}
	x.turn = binary.LittleEndian.Uint32(b)
	return nil
}
