package bits

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Rice codes (Rice and Plaunt 1971; Golomb 1966 with a power of two): v is sent
// as v>>b zeros, a one, and the b low bits of v. For geometrically distributed
// gaps they are within 2 % of the entropy.

// RiceParam is the b that suits gaps between k of n chosen positions, after
// Kiely 2004, eq. 6, in integers so that every machine agrees.
func RiceParam(k, n int) int {
	if k <= 0 || k >= n {
		return 0
	}
	// 1 + ⌊log2(ln(φ−1)/ln(1−p))⌋ with 1/−ln(1−p) ≈ (n−k)/k + ½.
	hi, lo := bits.Mul64(481, 2*uint64(n-k)+uint64(k))
	q, _ := bits.Div64(hi, lo, 2000*uint64(k))
	return min(bits.Len64(q), 31)
}

// RiceMaxLen bounds the bytes of k Rice codes whose values sum to at most sum.
func RiceMaxLen(k, sum, b int) int { return (k*(1+b) + sum>>uint(b) + 7) / 8 }

// Writer appends bit fields to Buf. Flush ends the last byte.
type Writer struct {
	Buf []byte
	acc uint64
	n   uint // bits in acc, < 32 between calls
}

// Put appends the width low bits of v, width ≤ 32.
func (w *Writer) Put(v uint64, width uint) {
	w.acc |= (v & (1<<width - 1)) << w.n
	if w.n += width; w.n >= 32 {
		w.Buf = binary.LittleEndian.AppendUint32(w.Buf, uint32(w.acc))
		w.acc >>= 32
		w.n -= 32
	}
}

// Rice appends the Rice code of v, b ≤ 31.
func (w *Writer) Rice(v uint32, b uint) {
	q := v >> b
	if q+1+uint32(b) <= 32 && q < 32 {
		w.Put((uint64(v)&(1<<b-1)<<1|1)<<q, uint(q)+1+b)
		return
	}
	for ; q >= 32; q -= 32 {
		w.Put(0, 32)
	}
	w.Put(1<<q, uint(q)+1)
	w.Put(uint64(v), b)
}

// RiceGaps appends the Rice codes of what lies between ascending positions idx,
// counted from 0: idx[0], then one less than each difference, b ≤ 31.
func (w *Writer) RiceGaps(idx []uint32, b uint) {
	w.Buf = slices.Grow(w.Buf, (len(idx)*int(b+2)+7)/8+4)
	buf, acc, n, low := w.Buf, w.acc, w.n, uint64(1)<<b-1
	next := uint32(0)
	for _, i := range idx {
		v := i - next
		next = i + 1
		q := uint(v >> b)
		if q+1+b > 32 { // seldom: the slow way
			w.Buf, w.acc, w.n = buf, acc, n
			w.Rice(v, b)
			buf, acc, n = w.Buf, w.acc, w.n
			continue
		}
		acc |= ((uint64(v)&low)<<1 | 1) << (q + n)
		if n += q + 1 + b; n >= 32 {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(acc))
			acc >>= 32
			n -= 32
		}
	}
	w.Buf, w.acc, w.n = buf, acc, n
}

// RiceMaskMax is the largest parameter of RiceMask.
const RiceMaskMax = 3

// RiceMask appends what RiceGaps appends for the places of the bits that are set in
// mask, the last byte of which is not 0, b ≤ RiceMaskMax.
//
// It reads a byte at a time. Between bytes it knows how many zeros have not been told,
// fewer than 2ᵇ: as soon as they are 2ᵇ, they are a zero of a code.
func (w *Writer) RiceMask(mask []byte, b uint) {
	w.Buf = slices.Grow(w.Buf, len(mask)*int(b+1)+16)
	buf, at := w.Buf[:cap(w.Buf)], len(w.Buf)
	acc, n, waiting := w.acc, w.n, uint64(0)
	table := riceBytes[b]
	last := len(mask) - 1
	for i, m := range mask {
		if i == last {
			break
		}
		e := table[waiting<<8|uint64(m)]
		acc |= e << 16 >> 16 << n
		n += uint(e >> 48 & 0xff)
		waiting = e >> 56
		binary.LittleEndian.PutUint64(buf[at:], acc)
		at += int(n >> 3)
		acc >>= n &^ 7
		n &= 7
	}
	w.Buf, w.acc, w.n = buf[:at], acc, n
	for m := mask[last]; m != 0; m >>= 1 { // what is behind the last one is not told
		if m&1 == 0 {
			if waiting++; waiting == 1<<b {
				w.Put(0, 1)
				waiting = 0
			}
			continue
		}
		w.Put(waiting<<1|1, b+1)
		waiting = 0
	}
}

// riceBytes says for every parameter, number of zeros that wait, and byte of a mask which
// bits follow, in the lower 48, how many, in the next eight, and how many zeros wait then.
var riceBytes = func() (t [RiceMaskMax + 1][]uint64) {
	for b := range t {
		t[b] = make([]uint64, 256<<b)
		for i := range t[b] {
			waiting, out, n := uint64(i>>8), uint64(0), uint64(0)
			for bit := range 8 {
				if i>>bit&1 == 1 {
					out |= (waiting<<1 | 1) << n
					n += uint64(b) + 1
					waiting = 0
				} else if waiting++; waiting == 1<<b {
					n++
					waiting = 0
				}
			}
			t[b][i] = waiting<<56 | n<<48 | out
		}
	}
	return t
}()

// Flush pads the last byte with zeros and returns Buf.
func (w *Writer) Flush() []byte {
	for ; w.n > 0; w.n -= min(w.n, 8) {
		w.Buf = append(w.Buf, byte(w.acc))
		w.acc >>= 8
	}
	w.acc = 0
	return w.Buf
}

// Reader reads what a Writer wrote.
type Reader struct {
	p   []byte
	acc uint64
	n   uint // bits in acc
}

// NewReader reads from p.
func NewReader(p []byte) Reader { return Reader{p: p} }

// fill tops acc up to at least 57 bits, or to all there is.
func (r *Reader) fill() {
	if len(r.p) >= 8 {
		r.acc |= binary.LittleEndian.Uint64(r.p) << r.n
		took := (63 - r.n) >> 3
		r.p = r.p[took:]
		r.n += took * 8
		r.acc &= 1<<r.n - 1 // n ≤ 63
		return
	}
	for r.n <= 56 && len(r.p) > 0 {
		r.acc |= uint64(r.p[0]) << r.n
		r.p = r.p[1:]
		r.n += 8
	}
}

// Rice reads one Rice code. It returns false when the bytes end first or the
// value exceeds limit.
func (r *Reader) Rice(b uint, limit uint32) (uint32, bool) {
	var q uint64
	for {
		if r.n < 57 {
			r.fill()
		}
		if r.acc != 0 {
			break
		}
		if q += uint64(r.n); r.n == 0 || q > uint64(limit>>b) {
			return 0, false
		}
		r.n = 0
	}
	z := uint(bits.TrailingZeros64(r.acc))
	q += uint64(z)
	r.acc >>= z + 1
	r.n -= z + 1
	if r.n < b {
		if r.fill(); r.n < b {
			return 0, false
		}
	}
	v := q<<b | r.acc&(1<<b-1)
	r.acc >>= b
	r.n -= b
	return uint32(v), v <= uint64(limit)
}

// RiceGaps reads positions as Writer.RiceGaps wrote them, the first one at least
// next, all of them below limit. It returns false where Rice would.
func (r *Reader) RiceGaps(idx []uint32, b uint, next, limit uint32) bool {
	p, acc, n, low := r.p, r.acc, r.n, uint64(1)<<b-1
	at, most := uint64(next), uint64(limit) // at most a few codes beyond 2³²
	many := min(8, max(1, int(56/(b+3))))   // codes that one filling holds, as a rule
	for j := 0; j < len(idx); {
		if len(p) >= 8 {
			// As many bytes as fit: what lies above the n bits that count is what comes
			// next. Between fillings a code waits for no more than three instructions of
			// the one before it.
			acc |= binary.LittleEndian.Uint64(p) << (n & 63)
			p = p[(63-n)>>3:]
			n |= 56
			first := j
			for last := min(j+many, len(idx)); j < last; j++ {
				z := uint(bits.TrailingZeros64(acc))
				used := z + 1 + b
				if used > n {
					break
				}
				at += uint64(z)<<(b&31) | acc>>((z+1)&63)&low
				idx[j] = uint32(at)
				at++
				acc >>= used & 63
				n -= used
			}
			if at > most {
				return false
			}
			if j > first {
				continue
			}
		}
		// A long run, the end, or an error.
		if r.p, r.acc, r.n = p, acc&(1<<n-1), n; at >= most {
			return false
		}
		v, ok := r.Rice(b, uint32(most-at-1))
		if !ok {
			return false
		}
		p, acc, n = r.p, r.acc, r.n
		at += uint64(v)
		idx[j] = uint32(at)
		at++
		j++
	}
	r.p, r.acc, r.n = p, acc&(1<<n-1), n
	return true
}

// Get reads a field of width ≤ 32 bits, as Put wrote it. It returns false when
// the bytes end first.
func (r *Reader) Get(width uint) (uint64, bool) {
	if r.n < width {
		if r.fill(); r.n < width {
			return 0, false
		}
	}
	v := r.acc & (1<<width - 1)
	r.acc >>= width
	r.n -= width
	return v, true
}

// Done reports whether only the zero padding of the last byte is left.
func (r *Reader) Done() bool { return len(r.p) == 0 && r.n < 8 && r.acc == 0 }
