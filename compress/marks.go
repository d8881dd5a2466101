package compress

import (
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

// marks are hits as a bit an element, and their signs: what a vector is looked through
// for strip by strip, while it is near.
type marks struct {
	mask  []byte
	signs []byte    // of hits, whole bytes
	left  []float32 // hits whose signs do not fill a byte, and room
	n     int       // how many those are
	idx   []uint32
}

// begin makes room for d elements.
func (m *marks) begin(d int) {
	m.mask, m.left = resize(m.mask, bits.SignLen(d)), resize(m.left, strip+8)
	m.signs, m.n = m.signs[:0], 0
}

// of is the mask of the elements from lo, a multiple of eight, to hi.
func (m *marks) of(lo, hi int) []byte { return m.mask[lo/8 : bits.SignLen(hi)] }

// sign takes the signs of the next elements of the vector, x, up to strip of them, where
// mask says so.
func (m *marks) sign(x []float32, mask []byte) {
	n := m.n + codec.Pick(m.left[m.n:], x, mask)
	at, whole := len(m.signs), n/8
	m.signs = slices.Grow(m.signs, whole)[:at+whole]
	f32.Signs(m.signs[at:], m.left[:8*whole])
	m.n = copy(m.left, m.left[8*whole:n])
}

// end takes the last signs and returns how many hits there are.
func (m *marks) end() (hits int) {
	hits = 8*len(m.signs) + m.n
	m.signs = bits.AppendSigns(m.signs, m.left[:m.n])
	return hits
}

// appendSigns writes a payload of signs.
func (c *hits) appendSigns(dst []byte, m *marks) []byte {
	k := m.end()
	dst = bits.AppendUvarint(dst, uint32(k))
	dst = append(dst, m.signs...)
	return c.appendMask(dst, m, k)
}

// appendMask writes the index section of k hits.
func (c *hits) appendMask(dst []byte, m *marks, k int) []byte {
	if k == 0 || k == c.d {
		return dst
	}
	last := len(m.mask)
	for m.mask[last-1] == 0 {
		last--
	}
	switch b := bits.RiceParam(k, c.d); {
	case c.index == "bitmap":
		return append(dst, m.mask...)
	case c.index == "rice" && b == 0:
		return append(dst, m.mask[:last]...)
	case c.index == "rice" && b <= bits.RiceMaskMax:
		w := bits.Writer{Buf: dst}
		w.RiceMask(m.mask[:last], uint(b))
		return w.Flush()
	}
	m.idx = resize(m.idx, k)
	codec.Ones(m.idx, m.mask)
	return appendIndices(dst, c.index, m.idx, c.d)
}
