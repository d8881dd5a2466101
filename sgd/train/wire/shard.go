package wire

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
)

// Piece is a block: one tensor, or the part of it that lies in one shard.
type Piece struct {
	Span  int // in the model's layout
	Off   int // in the flat vector
	Local int // in the shard's packed vector
	Len   int
	Block compress.Block
	raw   bool // buffers travel uncompressed
}

// Shard is what one server holds: pieces of tensors, packed.
type Shard struct {
	Pieces []Piece
	Layout sgd.Layout // of the packed vector
	split  bool       // some tensor is cut
	Whole  Part
	Parts  []Part // in which it travels, in order
}

// Size is the number of values of all pieces.
func (s *Shard) Size() int { return s.Layout.Size() }

// Part is a run of a shard's pieces that travels as one frame.
type Part struct {
	Lo, Hi int // pieces
	Local  int // where it begins in the shard's packed vector
	Size   int
	Exact  int // of these, elements that no codec touches
	From   int // where its one stretch of the flat vector begins, −1 if it has several
}

// Part is pieces lo … hi − 1 as a part.
func (s *Shard) Part(lo, hi int) Part {
	pt := Part{Lo: lo, Hi: hi, From: -1}
	if lo == hi {
		return pt
	}
	first := &s.Pieces[lo]
	pt.Local, pt.From = first.Local, first.Off
	for i := lo; i < hi; i++ {
		pc := &s.Pieces[i]
		if pc.Off != first.Off+pt.Size {
			pt.From = -1
		}
		pt.Size += pc.Len
		if pc.raw {
			pt.Exact += pc.Len
		}
	}
	return pt
}

// Cut makes parts of about limit bytes of gradient, from the last piece on: the
// backward pass completes them in that order. 0: one.
func (s *Shard) Cut(limit int) {
	if limit <= 0 || len(s.Pieces) == 0 {
		s.Parts = []Part{s.Whole}
		return
	}
	s.Parts = nil
	hi, bytes := len(s.Pieces), 0
	for lo := hi - 1; lo >= 0; lo-- {
		if bytes += 4 * s.Pieces[lo].Len; bytes >= limit || lo == 0 {
			s.Parts = append(s.Parts, s.Part(lo, hi))
			hi, bytes = lo, 0
		}
	}
	slices.Reverse(s.Parts)
}

// Plain is what a part takes under codecs raw and bf16, in bytes.
func (pt Part) Plain() (raw, bf16 int) { return 4 * pt.Size, 2 * (pt.Size + pt.Exact) }

// Ends says whether piece i is the last of its tensor.
func (s *Shard) Ends(i int) bool {
	return i == len(s.Pieces)-1 || s.Pieces[i+1].Span != s.Pieces[i].Span
}

// Gather copies the shard's pieces of the flat vector full into packed.
func (s *Shard) Gather(packed, full []float32) {
	for _, p := range s.Pieces {
		copy(packed[p.Local:p.Local+p.Len], full[p.Off:])
	}
}

// Scatter copies packed back into the flat vector.
func (s *Shard) Scatter(full, packed []float32) {
	for _, p := range s.Pieces {
		copy(full[p.Off:p.Off+p.Len], packed[p.Local:])
	}
}

// WholeShard is the whole vector in one shard, for modes without servers.
func WholeShard(l sgd.Layout) *Shard { return Shards(l, Cuts(l, ps.RoundRobin{}, 1))[0] }

// Cut is a tensor, or a piece of one, as a codec is given it.
type Cut struct {
	Span, Off int            // in the layout; in the tensor, in elements
	Block     compress.Block // its name, role and shape
	Buffer    bool           // no gradient: it travels uncompressed
}

// Cuts are the pieces of a layout's tensors that lie on each of n servers. A matrix
// whose shape one of the codecs uses is cut along its rows, so that pieces are
// matrices; other tensors may be cut anywhere, and pieces of them are vectors.
func Cuts(l sgd.Layout, placement ps.Placement, n int, codecs ...compress.Family) [][]Cut {
	tensors := make([]ps.Tensor, len(l.Spans))
	for i, s := range l.Spans {
		tensors[i].Len = s.Len()
		if shaped(s, codecs) {
			tensors[i].Row = s.Cols
		}
	}
	out := make([][]Cut, n)
	for i, pieces := range placement.Place(tensors, n) {
		for _, pc := range pieces {
			s := l.Spans[pc.Tensor]
			c := Cut{Span: pc.Tensor, Off: pc.Off, Buffer: s.Role == sgd.Buffer, Block: blockOf(s)}
			if pc.Len != s.Len() {
				c.Block.Name = fmt.Sprintf("%s[%d:%d]", s.Name, pc.Off, pc.Off+pc.Len)
				c.Block.Rows, c.Block.Cols = 1, pc.Len
				if row := tensors[pc.Tensor].Row; row > 0 {
					c.Block.Rows, c.Block.Cols = pc.Len/row, row
				}
			}
			out[i] = append(out[i], c)
		}
	}
	return out
}

// blockOf is a whole tensor as a codec is given it.
func blockOf(s sgd.Span) compress.Block {
	return compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols}
}

// shaped says whether one of the codecs uses a tensor's shape.
func shaped(s sgd.Span, codecs []compress.Family) bool {
	if s.Role == sgd.Buffer || s.Len() == 0 {
		return false
	}
	for _, f := range codecs {
		if c, _ := compress.ClaimsOf(f, blockOf(s)); c.Shaped {
			return true
		}
	}
	return false
}

// Shards packs the pieces of a layout into shards.
func Shards(l sgd.Layout, cuts [][]Cut) []*Shard {
	out := make([]*Shard, len(cuts))
	for i, list := range cuts {
		sh := &Shard{}
		for _, c := range list {
			s := l.Spans[c.Span]
			sh.Pieces = append(sh.Pieces, Piece{
				Span: c.Span, Off: s.Off + c.Off, Local: sh.Layout.Size(), Len: c.Block.Len(), raw: c.Buffer, Block: c.Block,
			})
			sh.split = sh.split || c.Block.Len() != s.Len()
			sh.Layout.Add(c.Block.Name, s.Role, c.Block.Rows, c.Block.Cols)
		}
		sh.Whole = sh.Part(0, len(sh.Pieces))
		sh.Cut(0)
		out[i] = sh
	}
	return out
}
