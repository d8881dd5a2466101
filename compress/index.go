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
		for _, i := range idx {
			w.Rice(i-next, b)
			next = i + 1
		}
		dst = w.Flush()
	}
	return dst
}

// indexReader walks k ascending positions out of d in any bytes.
type indexReader struct {
	coding   byte // first letter, '4' for raw32, '*' for all positions
	d        int
	at       int // the next position that may occur
	p        []byte
	rice     bits.Reader
	b        uint
	word     byte // bitmap: bits of the current byte still to come
	wordBase int
}

// readIndices starts a walk, k < d. The size claimed is the exact length or the bound: anything
// longer is refused at once.
func readIndices(p []byte, coding string, k, d int) (indexReader, error) {
	size, exact := indexSize(coding, k, d)
	if len(p) > size || exact && len(p) < size {
		return indexReader{}, Corruptf("%d bytes of indices, want %d", len(p), size)
	}
	r := indexReader{coding: coding[0], d: d, p: p}
	switch {
	case coding == "bitmap":
		r.wordBase = -8
	case coding == "rice":
		r.rice, r.b = bits.NewReader(p), uint(bits.RiceParam(k, d))
	case coding == "raw32":
		r.coding = '4'
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
		return indexReader{d: d, coding: '*'}, nil
	}
	r, err := readIndices(p, coding, k, d)
	if err != nil {
		return r, err
	}
	start := r
	for j := range k {
		if r.next() < 0 {
			return r, Corruptf("index %d of %d", j, k)
		}
	}
	if !r.done() {
		return r, Corruptf("bytes behind the last index")
	}
	return start, nil
}

// next returns the next position, or −1 if the bytes do not hold one.
func (r *indexReader) next() int {
	left := r.d - r.at - 1 // the largest gap allowed
	if left < 0 {
		return -1
	}
	i := -1
	switch r.coding {
	case '*':
		i = r.at
	case 'r':
		if gap, ok := r.rice.Rice(r.b, uint32(left)); ok {
			i = r.at + int(gap)
		}
	case 'v':
		if gap, n := bits.Uvarint(r.p); n > 0 && int64(gap) <= int64(left) {
			i = r.at + int(gap)
			r.p = r.p[n:]
		}
	case '4':
		if len(r.p) >= 4 {
			u := int64(binary.LittleEndian.Uint32(r.p))
			if r.p = r.p[4:]; u >= int64(r.at) && u < int64(r.d) {
				i = int(u)
			}
		}
	default:
		for r.word == 0 {
			if len(r.p) == 0 {
				return -1
			}
			r.word, r.p = r.p[0], r.p[1:]
			r.wordBase += 8
		}
		if j := r.wordBase + mathbits.TrailingZeros8(r.word); j < r.d {
			i = j
			r.word &= r.word - 1
		}
	}
	r.at = i + 1
	return i
}

// done reports whether nothing but padding is left.
func (r *indexReader) done() bool {
	switch r.coding {
	case 'r':
		return r.rice.Done()
	case 'b':
		for _, b := range r.p {
			r.word |= b
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
