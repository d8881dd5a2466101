package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Huffman codes (T.81 annex C, F.2.2). Codes of up to fastBits bits are looked up; in
// baseline pictures codes that lookBits bits hold together with the number behind them.
const (
	fastBits = 9
	lookBits = 11
)

type huffman struct {
	ok     bool
	fast   [1 << fastBits]uint16 // length<<8 | symbol; 0 for longer codes
	symbol [256]byte
	first  [17]int32 // smallest code of each length
	count  [17]int32
	offset [17]int32 // of its symbol

	lengths [16]byte // as they were read
	symbols int
	look    [1 << lookBits]pair
	looked  ways // what look is made for
}

// pair is a symbol and the number behind it: value<<16 | zeros before it<<8 | bits of
// both; 0 for what is longer than lookBits.
type pair uint32

// end is more zeros than a block has coefficients.
const end = 64

// ways says what symbols mean.
type ways uint8

const (
	means  ways = 1 + iota // the number of bits
	others                 // zeros, and the number of bits
)

// tables reads Huffman tables.
func (d *Decoder) tables(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 {
			return errShort
		}
		class, t := b[0]>>4, b[0]&15
		if class > 1 || t > 3 || d.exact && t > 1 {
			return errors.New("jpeg: a Huffman table of a number above 3")
		}
		h := &d.dc[t]
		if class == 1 {
			h = &d.ac[t]
		}
		n := 0
		for _, c := range b[1:17] {
			n += int(c)
		}
		if n == 0 || n > 256 || len(b) < 17+n {
			return errShort
		}
		if err := h.make(b[1:17], b[17:17+n]); err != nil {
			return err
		}
		b = b[17+n:]
	}
	return nil
}

// make builds a table of the number of codes of each length and their symbols.
func (h *huffman) make(counts, symbols []byte) error {
	if h.ok = true; h.symbols == len(symbols) && bytes.Equal(h.lengths[:], counts) && bytes.Equal(h.symbol[:h.symbols], symbols) {
		return nil // as in the picture before
	}
	h.fast, h.looked, h.symbols = [1 << fastBits]uint16{}, 0, 0
	copy(h.symbol[:], symbols)
	code, at := int32(0), int32(0)
	for n := 1; n <= 16; n++ {
		c := int32(counts[n-1])
		h.first[n], h.count[n], h.offset[n] = code, c, at
		if code+c > 1<<n {
			return errors.New("jpeg: a Huffman table of too many codes")
		}
		for i := range c {
			if n <= fastBits {
				from := (code + i) << (fastBits - n)
				for k := range int32(1) << (fastBits - n) {
					h.fast[from+k] = uint16(n)<<8 | uint16(symbols[at+i])
				}
			}
		}
		code, at = (code+c)<<1, at+c
	}
	copy(h.lengths[:], counts)
	h.symbols = len(symbols)
	return nil
}

// pairs fills the table look.
func (h *huffman) pairs(w ways) {
	if h.looked == w {
		return
	}
	h.looked, h.look = w, [1 << lookBits]pair{}
	for n := 1; n <= lookBits; n++ {
		for i := range h.count[n] {
			zeros, size := h.meaning(h.symbol[h.offset[n]+i], w)
			if n+size > lookBits {
				continue
			}
			spare := lookBits - n - size
			from := h.look[(h.first[n]+i)<<(lookBits-n):]
			for bits := range int32(1) << size {
				p := pair(extend(bits, size))<<16 | pair(zeros)<<8 | pair(n+size)
				for k := range 1 << spare {
					from[int(bits)<<spare+k] = p
				}
			}
		}
	}
}

// meaning is the zeros before a coefficient and the bits of it. Symbols of no bits end
// the block, those of progressive pictures (T.81 table F.1 has none) with more zeros
// than end; but for that of 16 zeros, which is 15 and one of no bits.
func (h *huffman) meaning(symbol byte, w ways) (zeros, size int) {
	switch zeros, size = int(symbol>>4), int(symbol&15); {
	case w == means:
		return 0, int(symbol)
	case size == 0 && zeros != 15:
		return end + zeros, 0
	}
	return zeros, size
}

// long is the pair at the head of acc that look has not; 0 if there is none.
func (h *huffman) long(acc uint64) pair {
	symbol, n := h.at(acc)
	zeros, size := h.meaning(symbol, h.looked)
	if n == 0 || size > 15 {
		return 0
	}
	return pair(extend(int32(acc<<n>>(64-size)), size))<<16 | pair(zeros)<<8 | pair(n+size)
}

// at is the symbol at the head of acc and the length of its code, 0 if there is none.
func (h *huffman) at(acc uint64) (symbol byte, length int) {
	if e := h.fast[acc>>(64-fastBits)]; e != 0 {
		return byte(e), int(e >> 8)
	}
	for n := fastBits + 1; n <= 16; n++ {
		if i := int32(acc>>(64-n)) - h.first[n]; i >= 0 && i < h.count[n] {
			return h.symbol[h.offset[n]+i], n
		}
	}
	return 0, 0
}

// bitReader takes bits off the entropy-coded data, which markers end. Behind the end
// there are zeros, and short is set once one of these is taken.
type bitReader struct {
	b    []byte
	at   int
	acc  uint64 // the next n bits, uppermost first
	n    int
	fake int // zeros among them
}

// fill has at least 32 bits ready. Eight bytes without 0xff are taken as they are; bits
// of them that are not counted yet stand behind the n, and come again.
func (r *bitReader) fill() {
	const ones = 0x0101010101010101
	if r.at+8 <= len(r.b) {
		if w := binary.BigEndian.Uint64(r.b[r.at:]); (^w-ones)&w&(0x80*ones) == 0 {
			k := (63 - r.n) >> 3
			r.acc |= w >> (r.n & 63)
			r.at += k
			r.n += 8 * k
			return
		}
	}
	r.bytewise()
}

// bytewise is fill where there are markers or stuffed bytes.
func (r *bitReader) bytewise() {
	for r.n <= 48 {
		v := uint64(0)
		if r.at < len(r.b) && r.b[r.at] != 0xff {
			v = uint64(r.b[r.at])
			r.at++
		} else if r.at+1 < len(r.b) && r.b[r.at+1] == 0 {
			v = 0xff
			r.at += 2
		} else {
			r.fake += 8
		}
		r.acc |= v << (56 - r.n)
		r.n += 8
	}
}

// short tells whether bits behind the end were taken.
func (r *bitReader) short() bool { return r.fake > r.n }

// take takes n bits, 0 to 16, that are there.
func (r *bitReader) take(n int) int32 {
	v := int32(r.acc >> 32 >> (32 - n))
	r.acc <<= n
	r.n -= n
	return v
}

// extend is the number that n bits stand for (T.81 F.2.2.1): 0 … 2ⁿ⁻¹−1 are negative.
func extend(v int32, n int) int32 {
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// decode takes one symbol; there are at least 16 bits left for more behind it.
func (r *bitReader) decode(h *huffman) (byte, bool) {
	if r.n < 32 {
		r.fill()
	}
	symbol, n := h.at(r.acc)
	r.acc <<= n
	r.n -= n
	return symbol, n > 0
}
