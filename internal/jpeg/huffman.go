package jpeg

import "errors"

// Huffman codes (T.81 annex C, F.2.2). Codes of up to fastBits bits are looked up.
const fastBits = 9

type huffman struct {
	ok     bool
	fast   [1 << fastBits]uint16 // length<<8 | symbol; 0 for longer codes
	symbol [256]byte
	first  [17]int32 // smallest code of each length
	count  [17]int32
	offset [17]int32 // of its symbol
}

// tables reads Huffman tables.
func (d *Decoder) tables(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 {
			return errShort
		}
		class, t := b[0]>>4, b[0]&15
		if class > 1 || t > 3 {
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
	h.ok, h.fast = true, [1 << fastBits]uint16{}
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
	return nil
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

// fill has at least 32 bits ready.
func (r *bitReader) fill() {
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
	if e := h.fast[r.acc>>(64-fastBits)]; e != 0 {
		r.acc <<= e >> 8
		r.n -= int(e >> 8)
		return byte(e), true
	}
	for n := fastBits + 1; n <= 16; n++ {
		if i := int32(r.acc>>(64-n)) - h.first[n]; i >= 0 && i < h.count[n] {
			r.acc <<= n
			r.n -= n
			return h.symbol[h.offset[n]+i], true
		}
	}
	return 0, false
}
