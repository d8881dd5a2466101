package train

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// piece is a block: one tensor, or the part of it that lies in one shard.
type piece struct {
	span  int // in the model's layout
	off   int // in the flat vector
	local int // in the shard's packed vector
	len   int
	block compress.Block
	raw   bool // buffers travel uncompressed
}

// shard is what one server holds: pieces of tensors, packed.
type shard struct {
	pieces []piece
	layout sgd.Layout // of the packed vector
	split  bool       // some tensor is cut
	whole  part
	parts  []part // in which it travels, in order
}

func (s *shard) size() int { return s.layout.Size() }

// part is a run of a shard's pieces that travels as one frame.
type part struct {
	lo, hi int // pieces
	local  int // where it begins in the shard's packed vector
	size   int
	exact  int // of these, elements that no codec touches
	from   int // where its one stretch of the flat vector begins, −1 if it has several
}

func (s *shard) part(lo, hi int) part {
	pt := part{lo: lo, hi: hi, from: -1}
	if lo == hi {
		return pt
	}
	first := &s.pieces[lo]
	pt.local, pt.from = first.local, first.off
	for i := lo; i < hi; i++ {
		pc := &s.pieces[i]
		if pc.off != first.off+pt.size {
			pt.from = -1
		}
		pt.size += pc.len
		if pc.raw {
			pt.exact += pc.len
		}
	}
	return pt
}

// cut makes parts of about limit bytes of gradient, from the last piece on: the
// backward pass completes them in that order. 0: one.
func (s *shard) cut(limit int) {
	if limit <= 0 || len(s.pieces) == 0 {
		s.parts = []part{s.whole}
		return
	}
	s.parts = nil
	hi, bytes := len(s.pieces), 0
	for lo := hi - 1; lo >= 0; lo-- {
		if bytes += 4 * s.pieces[lo].len; bytes >= limit || lo == 0 {
			s.parts = append(s.parts, s.part(lo, hi))
			hi, bytes = lo, 0
		}
	}
	slices.Reverse(s.parts)
}

// gather copies the shard's pieces of the flat vector full into packed.
func (s *shard) gather(packed, full []float32) {
	for _, p := range s.pieces {
		copy(packed[p.local:p.local+p.len], full[p.off:])
	}
}

// scatter copies packed back into the flat vector.
func (s *shard) scatter(full, packed []float32) {
	for _, p := range s.pieces {
		copy(full[p.off:p.off+p.len], packed[p.local:])
	}
}

// wholeShard is the whole vector in one shard, for modes without servers.
func wholeShard(l sgd.Layout) *shard { return shards(l, Cuts(l, ps.RoundRobin{}, 1))[0] }

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

// shards packs the pieces of a layout into shards.
func shards(l sgd.Layout, cuts [][]Cut) []*shard {
	out := make([]*shard, len(cuts))
	for i, list := range cuts {
		sh := &shard{}
		for _, c := range list {
			s := l.Spans[c.Span]
			sh.pieces = append(sh.pieces, piece{
				span: c.Span, off: s.Off + c.Off, local: sh.layout.Size(), len: c.Block.Len(), raw: c.Buffer, block: c.Block,
			})
			sh.split = sh.split || c.Block.Len() != s.Len()
			sh.layout.Add(c.Block.Name, s.Role, c.Block.Rows, c.Block.Cols)
		}
		sh.whole = sh.part(0, len(sh.pieces))
		sh.cut(0)
		out[i] = sh
	}
	return out
}

// packer encodes the pieces of a shard one behind the other, and decodes them.
// A payload whose length the codec states exactly travels bare; others are
// preceded by their length as a uvarint, which is billed like the rest.
//
// A payload of values as they are (compress.Plain, such as raw) is the memory of the pieces, so where they lie in
// one stretch it is passed on and taken up without a copy.
type packer struct {
	shard  *shard
	raw    bool // payloads are the values as they are
	codecs []compress.Codec
	recv   []compress.Receiver // where one only decodes: in place of the codec, if not nil
	size   []int               // exact payload length, −1 if it depends on the data
	notes  []*series           // where the lengths of the latter are noted; nil: nowhere
	wide   []int               // bytes of the last payload's length
	last   float64             // bytes a value of the last payload, or what one may have
	empty  bool                // payloads have their size and nothing in them
	noted  []cursor            // of empty payloads: the sizes that depend on data; nil: none does
	tariff *tariff             // nil: what it does is billed nothing, or by others
}

// newPacker makes the codecs of a block's pieces. b.Rank is −1 where one only
// decodes. A job without weights has none: its packer knows the size of every payload.
func (j *Job) newPacker(s *shard, f compress.Family, b compress.Block) (*packer, error) {
	p := &packer{shard: s, raw: compress.Plain(f), empty: j.Weightless}
	bound, values := 0.0, 0.0
	for i, pc := range s.pieces {
		fam := f
		if pc.raw {
			fam = compress.Raw{}
		}
		blk := pc.block
		blk.Rank, blk.World, blk.Peer, blk.Dir, blk.Seed = b.Rank, b.World, b.Peer, b.Dir, b.Seed
		size := -1
		claims, _ := compress.ClaimsOf(fam, blk)
		if claims.Exact {
			size = claims.Size
		}
		p.size, p.raw = append(p.size, size), p.raw && claims.Plain()
		var note *series
		if size < 0 && b.Rank >= 0 {
			note = j.Sizes.of(fmt.Sprintf("%d>%d/%d/%s", blk.Rank, blk.Peer, blk.Dir, blk.Name))
		}
		if j.Weightless {
			if size < 0 && j.Sizes == nil {
				return nil, fmt.Errorf("codec %s: %w", compress.Spec(f), errInexact)
			}
			if note != nil {
				if p.noted == nil {
					p.noted = make([]cursor, len(s.pieces))
				}
				p.noted[i].s = note
			}
			continue
		}
		c, err := fam.New(blk)
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Families.Spec(fam), blk.Name, err)
		}
		var r compress.Receiver
		if b.Rank < 0 {
			if r, err = compress.NewReceiver(fam, blk); err != nil {
				return nil, fmt.Errorf("codec %s on %s: %w", compress.Families.Spec(fam), blk.Name, err)
			}
		}
		p.codecs, p.recv, p.notes = append(p.codecs, c), append(p.recv, r), append(p.notes, note)
		bound, values = bound+float64(claims.Size), values+float64(blk.Len())
		p.wide = append(p.wide, len(binary.AppendUvarint(nil, uint64(claims.Size))))
	}
	p.last = min(4, bound/max(1, values))
	return p, nil
}

// packer makes the packer of a shard for this job.
func (j *Job) packer(s *shard, f compress.Family, b compress.Block) (*packer, error) {
	p, err := j.newPacker(s, f, b)
	if err == nil {
		p.tariff = j.tariff(s, b.Dir == compress.Down, b.Dir == compress.Down && b.Rank >= 0)
	}
	return p, err
}

// at is where a piece lies in a vector: the flat one or the shard's packed one.
func (pc *piece) at(v []float32, flat bool) []float32 {
	off := pc.local
	if flat {
		off = pc.off
	}
	return v[off : off+pc.len : off+pc.len]
}

// stretch is where a part's pieces lie in a vector as one stretch of pt.size
// values; ok is false if they do not.
func (pt part) stretch(flat bool) (lo int, ok bool) {
	if flat {
		return pt.from, pt.from >= 0
	}
	return pt.local, pt.size > 0
}

// frame makes a frame of a part's encoded pieces of v, the flat vector or the
// packed one. Its body may be the memory of v itself, which then must not be
// written to until the frame is released.
func (p *packer) frame(hd comm.Header, pt part, v Vector, flat bool, s compress.Step) (comm.Frame, error) {
	if p.empty {
		n, err := p.bytes(pt)
		return comm.Frame{Header: hd, Billed: n}, err
	}
	if lo, ok := pt.stretch(flat); ok && p.raw {
		if f, ok := v.frame(hd, lo, pt.size); ok {
			return f, nil
		}
	}
	buf, err := p.encode(pt, v.f, flat, s)
	return comm.NewFrame(hd, buf), err
}

// push is frame of a gradient, in the flat vector, every part of which is pushed once:
// who gets it has the memory of the part to itself once v is released.
func (p *packer) push(hd comm.Header, pt part, v Vector, s compress.Step) (comm.Frame, error) {
	if lo, ok := pt.stretch(true); ok && p.raw && !p.empty {
		part := v.part(lo, pt.size)
		defer part.Release()
		if f, ok := part.frame(hd, 0, pt.size); ok {
			return f, nil
		}
	}
	return p.frame(hd, pt, v, true, s)
}

// bytes is the size of the next payload of a part that is empty.
func (p *packer) bytes(pt part) (n int, err error) {
	for i := pt.lo; i < pt.hi; i++ {
		size := p.size[i]
		if size < 0 {
			if size, err = p.noted[i].next(); err != nil {
				return n, err
			}
			size += lengthOf(size)
		}
		n += size
	}
	return n, nil
}

// lengthOf is how many bytes the length n takes in front of a payload.
func lengthOf(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// encode makes the payload of a part's pieces of v in a buffer of its own.
func (p *packer) encode(pt part, v []float32, flat bool, s compress.Step) (*comm.Buffer, error) {
	buf := comm.NewBuffer(int(math.Ceil(p.last * float64(pt.size))))
	var err error
	if buf.B, err = p.append(buf.B[:0], pt, v, flat, s); err != nil {
		buf.Release()
		return nil, err
	}
	if pt.size > 0 {
		p.last = float64(len(buf.B)) / float64(pt.size)
	}
	return buf, nil
}

// set is addTo for a vector that holds nothing yet: the part's pieces of v become
// scale times what body says.
func (p *packer) set(pt part, v []float32, flat bool, scale float32, body []byte, from compress.From) error {
	pieces := p.shard.pieces[pt.lo:pt.hi]
	if p.raw && len(body) == 4*pt.size {
		for i := range pieces {
			pc := &pieces[i]
			setBytes(pc.at(v, flat), scale, body[:4*pc.len])
			body = body[4*pc.len:]
		}
		return nil
	}
	for i := range pieces {
		clear(pieces[i].at(v, flat))
	}
	return p.addTo(pt, v, flat, scale, body, from)
}

// setBytes is dst = scale·b, b in its byte form, in one pass over memory.
func setBytes(dst []float32, scale float32, b []byte) {
	for len(dst) > 0 {
		n := min(len(dst), 4096)
		f32.FromBytes(dst[:n], b[:4*n])
		if scale != 1 {
			f32.Scale(dst[:n], scale)
		}
		dst, b = dst[n:], b[4*n:]
	}
}

// append encodes a part's pieces of v, the flat vector or the packed one, behind
// dst.
func (p *packer) append(dst []byte, pt part, v []float32, flat bool, s compress.Step) ([]byte, error) {
	var err error
	for i := pt.lo; i < pt.hi; i++ {
		c, pc := p.codecs[i], &p.shard.pieces[i]
		g := pc.at(v, flat)
		if p.size[i] >= 0 {
			at := len(dst)
			if dst, err = c.Append(dst, g, s); err == nil && len(dst)-at != p.size[i] {
				err = fmt.Errorf("codec wrote %d bytes, it claims %d exactly", len(dst)-at, p.size[i])
			}
		} else {
			var n int
			if dst, n, err = appendSized(dst, g, c, s, &p.wide[i]); err == nil {
				p.notes[i].note(uint32(n))
			}
		}
		if err != nil {
			return dst, fmt.Errorf("%s: %w", pc.block.Name, err)
		}
	}
	return dst, nil
}

// appendSized appends a payload behind its length, and says how long it is. Room for the
// length is left as it was wide the last time; only where it is not is the payload moved.
func appendSized(dst []byte, g []float32, c compress.Codec, s compress.Step, wide *int) ([]byte, int, error) {
	at := len(dst)
	var length [binary.MaxVarintLen64]byte
	dst, err := c.Append(append(dst, length[:*wide]...), g, s)
	if err != nil {
		return dst, 0, err
	}
	n := len(dst) - at - *wide
	w := binary.PutUvarint(length[:], uint64(n))
	if w != *wide {
		dst = append(dst, length[:]...)
		copy(dst[at+w:], dst[at+*wide:at+*wide+n])
		dst, *wide = dst[:at+w+n], w
	}
	copy(dst[at:], length[:w])
	return dst, n, nil
}

// addTo decodes body and adds scale times it to a part's pieces of v. After an
// error v may hold some of it.
func (p *packer) addTo(pt part, v []float32, flat bool, scale float32, body []byte, from compress.From) error {
	if p.empty {
		return nil
	}
	for i := pt.lo; i < pt.hi; i++ {
		c, pc := p.codecs[i], &p.shard.pieces[i]
		n := p.size[i]
		if n < 0 {
			l, k := binary.Uvarint(body)
			if k <= 0 || l > uint64(len(body)-k) {
				return fmt.Errorf("%s: %w", pc.block.Name, compress.Corruptf("length of the payload"))
			}
			body, n = body[k:], int(l)
		}
		if n > len(body) {
			return fmt.Errorf("%s: %w", pc.block.Name, compress.Corruptf("%d bytes left, want %d", len(body), n))
		}
		add := c.AddTo
		if r := p.recv[i]; r != nil {
			add = r.Receive
		}
		if err := add(pc.at(v, flat), scale, body[:n], from); err != nil {
			return fmt.Errorf("%s: %w", pc.block.Name, err)
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return compress.Corruptf("%d bytes behind the last block", len(body))
	}
	return nil
}

// byRole are the ranges of a layout that are trained, and the others.
func byRole(l sgd.Layout) (trainable, buffers []sgd.Range) {
	is := func(s sgd.Span) bool { return s.Role == sgd.Buffer }
	return l.Ranges(func(s sgd.Span) bool { return !is(s) }), l.Ranges(is)
}

// keep keeps the codecs' state under prefix.
func (p *packer) keep(k *checkpoint.Keeper, prefix string) {
	for i, c := range p.codecs {
		k.State(prefix+p.shard.pieces[i].block.Name, c)
	}
}

// residual is the square of the norm of what the codecs have yet to send.
func (p *packer) residual() (square float64) {
	for _, c := range p.codecs {
		n := compress.ResidualNorm(c)
		square += float64(n * n)
	}
	return square
}

// keepReceivers keeps what the receiving ends hold under prefix; nil has none.
func (p *packer) keepReceivers(k *checkpoint.Keeper, prefix string) {
	if p == nil {
		return
	}
	for i, r := range p.recv {
		k.State(prefix+p.shard.pieces[i].block.Name, r)
	}
}
