package compress

import (
	"encoding/binary"
	mathbits "math/bits"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
)

// Index codings: k ascending positions out of d. Both sides know k and d, so
// nothing else is sent; k = d sends nothing at all.
//
//	rice    gaps as Rice codes, parameter from k and d   8.1 bits at 1 %
//	varint  gaps in base 128                             10.2 bits at 1 %
//	bitmap  one bit an element                           d/8 bytes
//	raw32   four bytes a position
//	block   the place in its chunk, in as few bits as hold it; topk alone

var indexCodings = []string{"rice", "varint", "bitmap", "raw32"}

// indexSize is the length of k of d positions, or its upper bound.
func indexSize(coding string, k, d int) (bytes int, exact bool) {
	if k == d || k == 0 {
		return 0, true
	}
	switch coding {
	case "raw32":
		return 4 * k, true
	case "bitmap":
		return bits.SignLen(d), true
	case "varint":
		return bits.UvarintMaxLen(k, d-k), false
	}
	return bits.RiceMaxLen(k, d-k, bits.RiceParam(k, d)), false
}

// appendIndices writes ascending positions idx out of d.
func appendIndices(dst []byte, coding string, idx []uint32, d int) []byte {
	if len(idx) == d {
		return dst
	}
	next := uint32(0)
	switch coding {
	case "raw32":
		for _, i := range idx {
			dst = binary.LittleEndian.AppendUint32(dst, i)
		}
	case "bitmap":
		at, n := len(dst), bits.SignLen(d)
		dst = slices.Grow(dst, n)[:at+n]
		clear(dst[at:])
		for _, i := range idx {
			dst[at+int(i>>3)] |= 1 << (i & 7)
		}
	case "varint":
		for _, i := range idx {
			dst = bits.AppendUvarint(dst, i-next)
			next = i + 1
		}
	default:
		w, b := bits.Writer{Buf: dst}, uint(bits.RiceParam(len(idx), d))
		w.RiceGaps(idx, b)
		dst = w.Flush()
	}
	return dst
}

// indexReader walks k ascending positions out of d in any bytes.
type indexReader struct {
	coding string // "" for all positions
	d      int
	at     int // the next position that may occur
	p      []byte
	rice   bits.Reader
	b      uint
	word   uint64 // bitmap: bits of the current word still to come
	base   int    // the position of its first
}

// readIndices starts a walk, k < d. The size claimed is the exact length or the bound: anything
// longer is refused at once.
func readIndices(p []byte, coding string, k, d int) (indexReader, error) {
	size, exact := indexSize(coding, k, d)
	if len(p) > size || exact && len(p) < size {
		return indexReader{}, Corruptf("%d bytes of indices, want %d", len(p), size)
	}
	r := indexReader{coding: coding, d: d, p: p, base: -64}
	if coding == "rice" {
		r.rice, r.b = bits.NewReader(p), uint(bits.RiceParam(k, d))
	}
	return r, nil
}

// walkIndices checks that p holds k ascending positions out of d and nothing
// else, and starts a walk that will not fail. k may be d.
func walkIndices(p []byte, coding string, k, d int) (indexReader, error) {
	if k == d {
		if len(p) > 0 {
			return indexReader{}, Corruptf("%d bytes of indices, want none", len(p))
		}
		return indexReader{d: d}, nil
	}
	r, err := readIndices(p, coding, k, d)
	if err != nil {
		return r, err
	}
	start := r
	var at [batch]uint32
	for first := 0; first < k; first += batch {
		if !r.fill(at[:min(batch, k-first)]) {
			return r, Corruptf("indices %d to %d of %d", first, min(first+batch, k)-1, k)
		}
	}
	if !r.done() {
		return r, Corruptf("bytes behind the last index")
	}
	return start, nil
}

// fill reads the next positions, as many as idx holds. It returns false if the
// bytes do not hold them.
func (r *indexReader) fill(idx []uint32) bool {
	switch r.coding {
	case "":
		for j := range idx {
			idx[j] = uint32(r.at)
			r.at++
		}
		return true
	case "rice":
		if !r.rice.RiceGaps(idx, r.b, uint32(r.at), uint32(r.d)) {
			return false
		}
	case "varint":
		at, p := r.at, r.p
		for j := range idx {
			gap, n := uint32(0), 1
			if len(p) > 0 && p[0] < 0x80 {
				gap = uint32(p[0])
			} else if gap, n = bits.Uvarint(p); n <= 0 {
				return false
			}
			if int64(gap) >= int64(r.d-at) {
				return false
			}
			at, p = at+int(gap)+1, p[n:]
			idx[j] = uint32(at - 1)
		}
		r.p = p
	case "raw32":
		if len(r.p) < 4*len(idx) {
			return false
		}
		least := int64(r.at)
		for j := range idx {
			u := binary.LittleEndian.Uint32(r.p[4*j:])
			if int64(u) < least || int64(u) >= int64(r.d) {
				return false
			}
			idx[j], least = u, int64(u)+1
		}
		r.p = r.p[4*len(idx):]
	default:
		for j := range idx {
			for r.word == 0 {
				if len(r.p) == 0 {
					return false
				}
				r.nextWord()
			}
			i := r.base + mathbits.TrailingZeros64(r.word)
			if i >= r.d {
				return false
			}
			idx[j] = uint32(i)
			r.word &= r.word - 1
		}
	}
	if n := len(idx); n > 0 {
		r.at = int(idx[n-1]) + 1
	}
	return true
}

// nextWord takes up to eight bytes of a bitmap.
func (r *indexReader) nextWord() {
	r.base += 64
	if len(r.p) >= 8 {
		r.word, r.p = binary.LittleEndian.Uint64(r.p), r.p[8:]
		return
	}
	var last [8]byte
	copy(last[:], r.p)
	r.word, r.p = binary.LittleEndian.Uint64(last[:]), nil
}

// done reports whether nothing but padding is left.
func (r *indexReader) done() bool {
	switch r.coding {
	case "rice":
		return r.rice.Done()
	case "bitmap":
		for _, b := range r.p {
			r.word |= uint64(b)
		}
		return r.word == 0
	}
	return len(r.p) == 0
}

// blockWidth is the bits that hold a place in a chunk.
func blockWidth(d, chunk int) int { return mathbits.Len(uint(max(1, min(d, chunk)) - 1)) }

// blockSize is the length of k places.
func blockSize(k, d, chunk int) int {
	if k == d {
		return 0
	}
	return (k*blockWidth(d, chunk) + 7) / 8
}

// appendBlocks writes ascending positions idx out of d as places in their
// chunks. How many there are of each chunk both sides know.
func appendBlocks(dst []byte, idx []uint32, d, chunk int) []byte {
	w, width := bits.Writer{Buf: dst}, uint(blockWidth(d, chunk))
	for _, i := range idx {
		w.Put(uint64(i)%uint64(chunk), width)
	}
	return w.Flush()
}
