package compress

import (
	"encoding/binary"
	mathbits "math/bits"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
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

// positions are what an index section holds, in memory that is lent.
type positions struct{ idx []uint32 }

var lentPositions = sync.Pool{New: func() any { return new(positions) }}

// release gives the memory back.
func (x *positions) release() { lentPositions.Put(x) }

// readIndices reads k ascending positions out of d, 0 < k ≤ d, from p, which must hold
// nothing else. The caller releases them.
func readIndices(p []byte, coding string, k, d int) (*positions, error) {
	size, exact := indexSize(coding, k, d)
	if len(p) > size || exact && len(p) < size {
		return nil, Corruptf("%d bytes of indices, want %d", len(p), size)
	}
	if asMask(coding, k, d) && !isMask(p, coding, k, d) {
		return nil, Corruptf("bits of indices are not %d of %d", k, d)
	}
	x := lentPositions.Get().(*positions)
	x.idx = resize(x.idx, k)
	if !fillIndices(x.idx, p, coding, d) {
		x.release()
		return nil, Corruptf("no %d indices below %d", k, d)
	}
	return x, nil
}

// asMask reports whether an index section is one bit an element, up to the last that is
// set: a bitmap, and Rice codes with parameter 0, which are as many zeros as there are
// elements between, and a one.
func asMask(coding string, k, d int) bool {
	return k < d && (coding == "bitmap" || coding == "rice" && bits.RiceParam(k, d) == 0)
}

// isMask reports whether such a section holds k positions out of d, and nothing else.
func isMask(p []byte, coding string, k, d int) bool {
	last := len(p) - 1
	if last < 0 || coding == "rice" && p[last] == 0 || last > (d-1)>>3 {
		return false
	}
	return bits.Ones(p) == k && (last < (d-1)>>3 || d&7 == 0 || p[last]>>uint(d&7) == 0)
}

// fillIndices reads as many positions as idx holds, which must be all there are.
func fillIndices(idx []uint32, p []byte, coding string, d int) bool {
	k := len(idx)
	switch {
	case k == d:
		for j := range idx {
			idx[j] = uint32(j)
		}
		return true
	case asMask(coding, k, d):
		codec.Ones(idx, p)
		return true
	}
	switch coding {
	case "rice":
		r := bits.NewReader(p)
		return r.RiceGaps(idx, uint(bits.RiceParam(k, d)), 0, uint32(d)) && r.Done()
	case "varint":
		at := 0
		for j := range idx {
			gap, n := uint32(0), 1
			if len(p) > 0 && p[0] < 0x80 {
				gap = uint32(p[0])
			} else if gap, n = bits.Uvarint(p); n <= 0 {
				return false
			}
			if int64(gap) >= int64(d-at) {
				return false
			}
			at, p = at+int(gap)+1, p[n:]
			idx[j] = uint32(at - 1)
		}
		return len(p) == 0
	}
	least := int64(0)
	for j := range idx { // raw32, whose length is exact
		u := binary.LittleEndian.Uint32(p[4*j:])
		if int64(u) < least || int64(u) >= int64(d) {
			return false
		}
		idx[j], least = u, int64(u)+1
	}
	return true
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
