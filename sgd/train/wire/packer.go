package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// Packer encodes the pieces of a shard one behind the other, and decodes them.
// A payload whose length the codec states exactly travels bare; others are
// preceded by their length as a uvarint, which is billed like the rest.
//
// A payload of values as they are (compress.Plain, such as raw) is the memory of the pieces, so where
// they lie in one stretch it is passed on and taken up without a copy.
type Packer struct {
	Shard  *Shard
	Raw    bool // payloads are the values as they are
	codecs []compress.Codec
	recv   []compress.Receiver // where one only decodes: in place of the codec, if not nil
	size   []int               // exact payload length, −1 if it depends on the data
	notes  []*Series           // where the lengths of the latter are noted; nil: nowhere
	wide   []int               // bytes of the last payload's length
	last   float64             // bytes a value of the last payload, or what one may have
	Empty  bool                // payloads have their size and nothing in them
	noted  []Cursor            // of empty payloads: the sizes that depend on data; nil: none does
	Tariff *Tariff             // nil: what it does is billed nothing, or by others
}

// Content says what the payloads of a run hold: the encodings of their pieces, or, in a
// run without weights, nothing but their sizes.
type Content struct {
	Weightless bool
	// Sizes is where the sizes of payloads that depend on data are noted, or, without
	// weights, read; nil: nowhere.
	Sizes *Sizes
}

// NewPacker makes the codecs of a block's pieces. b.Rank is −1 where one only
// decodes. Without weights there are none: the packer knows the size of every payload.
func (c Content) NewPacker(s *Shard, f compress.Family, b compress.Block) (*Packer, error) {
	p := &Packer{Shard: s, Raw: compress.Plain(f), Empty: c.Weightless}
	bound, values := 0.0, 0.0
	for i, pc := range s.Pieces {
		fam := pc.Family(f)
		blk := pc.Block
		blk.Rank, blk.World, blk.Peer, blk.Dir, blk.Seed = b.Rank, b.World, b.Peer, b.Dir, b.Seed
		size := -1
		claims, _ := compress.ClaimsOf(fam, blk)
		if claims.Exact {
			size = claims.Size
		}
		p.size, p.Raw = append(p.size, size), p.Raw && claims.Plain()
		var note *Series
		if size < 0 && b.Rank >= 0 {
			note = c.Sizes.Of(fmt.Sprintf("%d>%d/%d/%s", blk.Rank, blk.Peer, blk.Dir, blk.Name))
		}
		if c.Weightless {
			if size < 0 && c.Sizes == nil {
				return nil, fmt.Errorf("codec %s: %w", compress.Spec(f), errInexact)
			}
			if note != nil {
				if p.noted == nil {
					p.noted = make([]Cursor, len(s.Pieces))
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

// Family is the codec of a piece, where that of gradients is f: buffers travel as they are.
func (pc *Piece) Family(f compress.Family) compress.Family {
	if pc.raw {
		return compress.Raw{}
	}
	return f
}

// At is where a piece lies in a vector: the flat one or the shard's packed one.
func (pc *Piece) At(v []float32, flat bool) []float32 {
	off := pc.Local
	if flat {
		off = pc.Off
	}
	return v[off : off+pc.Len : off+pc.Len]
}

// stretch is where a part's pieces lie in a vector as one stretch of pt.size
// values; ok is false if they do not.
func (pt Part) stretch(flat bool) (lo int, ok bool) {
	if flat {
		return pt.From, pt.From >= 0
	}
	return pt.Local, pt.Size > 0
}

// Frame makes a frame of a part's encoded pieces of v, the flat vector or the
// packed one. Its body may be the memory of v itself, which then must not be
// written to until the frame is released.
func (p *Packer) Frame(hd comm.Header, pt Part, v Vector, flat bool, s compress.Step) (comm.Frame, error) {
	if p.Empty {
		n, err := p.bytes(pt)
		return comm.Frame{Header: hd, Billed: n}, err
	}
	if lo, ok := pt.stretch(flat); ok && p.Raw {
		if f, ok := v.Frame(hd, lo, pt.Size); ok {
			return f, nil
		}
	}
	buf, err := p.Encode(pt, v.f, flat, s)
	return comm.NewFrame(hd, buf), err
}

// Push is Frame of a gradient, in the flat vector, every part of which is pushed once:
// who gets it has the memory of the part to itself once v is released.
func (p *Packer) Push(hd comm.Header, pt Part, v Vector, s compress.Step) (comm.Frame, error) {
	if lo, ok := pt.stretch(true); ok && p.Raw && !p.Empty {
		part := v.part(lo, pt.Size)
		defer part.Release()
		if f, ok := part.Frame(hd, 0, pt.Size); ok {
			return f, nil
		}
	}
	return p.Frame(hd, pt, v, true, s)
}

// bytes is the size of the next payload of a part that is empty.
func (p *Packer) bytes(pt Part) (n int, err error) {
	for i := pt.Lo; i < pt.Hi; i++ {
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

// Encode makes the payload of a part's pieces of v in a buffer of its own.
func (p *Packer) Encode(pt Part, v []float32, flat bool, s compress.Step) (*comm.Buffer, error) {
	buf := comm.NewBuffer(int(math.Ceil(p.last * float64(pt.Size))))
	var err error
	if buf.B, err = p.append(buf.B[:0], pt, v, flat, s); err != nil {
		buf.Release()
		return nil, err
	}
	if pt.Size > 0 {
		p.last = float64(len(buf.B)) / float64(pt.Size)
	}
	return buf, nil
}

// Set is AddTo for a vector that holds nothing yet: the part's pieces of v become
// scale times what body says.
func (p *Packer) Set(pt Part, v []float32, flat bool, scale float32, body []byte, from compress.From) error {
	pieces := p.Shard.Pieces[pt.Lo:pt.Hi]
	if p.Raw && len(body) == 4*pt.Size {
		for i := range pieces {
			pc := &pieces[i]
			setBytes(pc.At(v, flat), scale, body[:4*pc.Len])
			body = body[4*pc.Len:]
		}
		return nil
	}
	for i := range pieces {
		clear(pieces[i].At(v, flat))
	}
	return p.AddTo(pt, v, flat, scale, body, from)
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
func (p *Packer) append(dst []byte, pt Part, v []float32, flat bool, s compress.Step) ([]byte, error) {
	var err error
	for i := pt.Lo; i < pt.Hi; i++ {
		c, pc := p.codecs[i], &p.Shard.Pieces[i]
		g := pc.At(v, flat)
		if p.size[i] >= 0 {
			at := len(dst)
			if dst, err = c.Append(dst, g, s); err == nil && len(dst)-at != p.size[i] {
				err = fmt.Errorf("codec wrote %d bytes, it claims %d exactly", len(dst)-at, p.size[i])
			}
		} else {
			var n int
			if dst, n, err = AppendSized(dst, g, c, s, &p.wide[i]); err == nil {
				p.notes[i].note(uint32(n))
			}
		}
		if err != nil {
			return dst, fmt.Errorf("%s: %w", pc.Block.Name, err)
		}
	}
	return dst, nil
}

// AppendSized appends a payload behind its length, and says how long it is. Room for the
// length is left as it was wide the last time; only where it is not is the payload moved.
func AppendSized(dst []byte, g []float32, c compress.Codec, s compress.Step, wide *int) ([]byte, int, error) {
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

// AddTo decodes body and adds scale times it to a part's pieces of v. After an
// error v may hold some of it.
func (p *Packer) AddTo(pt Part, v []float32, flat bool, scale float32, body []byte, from compress.From) error {
	if p.Empty {
		return nil
	}
	for i := pt.Lo; i < pt.Hi; i++ {
		c, pc := p.codecs[i], &p.Shard.Pieces[i]
		n := p.size[i]
		if n < 0 {
			l, k := binary.Uvarint(body)
			if k <= 0 || l > uint64(len(body)-k) {
				return fmt.Errorf("%s: %w", pc.Block.Name, compress.Corruptf("length of the payload"))
			}
			body, n = body[k:], int(l)
		}
		if n > len(body) {
			return fmt.Errorf("%s: %w", pc.Block.Name, compress.Corruptf("%d bytes left, want %d", len(body), n))
		}
		add := c.AddTo
		if r := p.recv[i]; r != nil {
			add = r.Receive
		}
		if err := add(pc.At(v, flat), scale, body[:n], from); err != nil {
			return fmt.Errorf("%s: %w", pc.Block.Name, err)
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return compress.Corruptf("%d bytes behind the last block", len(body))
	}
	return nil
}

// Keep keeps the codecs' state under prefix.
func (p *Packer) Keep(k *checkpoint.Keeper, prefix string) {
	for i, c := range p.codecs {
		k.State(prefix+p.Shard.Pieces[i].Block.Name, c)
	}
}

// Residual is the square of the norm of what the codecs have yet to send.
func (p *Packer) Residual() (square float64) {
	for _, c := range p.codecs {
		n := compress.ResidualNorm(c)
		square += float64(n * n)
	}
	return square
}

// KeepReceivers keeps what the receiving ends hold under prefix; nil has none.
func (p *Packer) KeepReceivers(k *checkpoint.Keeper, prefix string) {
	if p == nil {
		return
	}
	for i, r := range p.recv {
		k.State(prefix+p.Shard.Pieces[i].Block.Name, r)
	}
}
