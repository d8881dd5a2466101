package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Encodings of values.
const (
	encPlain       = 0
	encPlainDict   = 2
	encRLE         = 3
	encDelta       = 5
	encDeltaLength = 6
	encDeltaBytes  = 7
	encDict        = 8
)

var encodings = []string{"PLAIN", "1", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"}

func encodingName(e int64) string {
	if e < 0 || e >= int64(len(encodings)) {
		return fmt.Sprint(e)
	}
	return encodings[e]
}

// decoder returns a function that returns the n values of a page, one per call.
func decoder(enc int64, b []byte, kind physical, dict *dictionary, n int) (func() (cell, error), error) {
	switch {
	case n == 0: // all are null, and nothing may be there
		return nil, nil
	case enc == encPlain:
		return plain(b, kind)
	case enc == encPlainDict || enc == encDict:
		if dict == nil {
			return nil, errors.New("no dictionary before its indices")
		}
		if len(b) == 0 || b[0] > 32 {
			return nil, errors.New("indices of a dictionary without their width")
		}
		h := &hybrid{b: b[1:], width: int(b[0])}
		return func() (cell, error) {
			i, err := h.next()
			if err != nil {
				return cell{}, err
			}
			return dict.at(i)
		}, nil
	case enc == encRLE && kind == booleans:
		b, _, err := prefixed(b)
		h := &hybrid{b: b, width: 1}
		return func() (cell, error) {
			v, err := h.next()
			return cell{whole: int64(v)}, err
		}, err
	case enc == encDelta && (kind == int32s || kind == int64s):
		d, err := newDelta(b)
		return func() (cell, error) {
			v, err := d.next()
			if kind == int32s {
				v = int64(int32(v))
			}
			return cell{whole: v}, err
		}, err
	case enc == encDeltaLength && kind == byteArrays:
		lengths, rest, err := deltas(b, n)
		return func() (cell, error) {
			v, err := cut(&rest, lengths[0])
			lengths = lengths[1:]
			return cell{bytes: v}, err
		}, err
	case enc == encDeltaBytes && kind == byteArrays:
		return deltaBytes(b, n)
	}
	return nil, fmt.Errorf("%s encoded by %s, which is not read; write it plainly or with a dictionary", physicalNames[kind], encodingName(enc))
}

// cut takes n bytes off.
func cut(b *[]byte, n int64) ([]byte, error) {
	if n < 0 || n > int64(len(*b)) {
		return nil, io.ErrUnexpectedEOF
	}
	v := (*b)[:n:n]
	*b = (*b)[n:]
	return v, nil
}

// plain reads values stored one after the other.
func plain(b []byte, kind physical) (func() (cell, error), error) {
	if kind == int96s || kind == fixedBytes {
		return nil, fmt.Errorf("%s are not read", physicalNames[kind])
	}
	bit := 0
	return func() (c cell, err error) {
		switch kind {
		case booleans:
			if bit/8 >= len(b) {
				return c, io.ErrUnexpectedEOF
			}
			c.whole = int64(b[bit/8] >> (bit % 8) & 1)
			bit++
			return c, nil
		case byteArrays:
			c.bytes, b, err = prefixed(b)
			return c, err
		}
		v, err := cut(&b, wideOf(kind))
		if err != nil {
			return c, err
		}
		return fixed(v, kind), nil
	}, nil
}

// wideOf is how many bytes a number takes.
func wideOf(kind physical) int64 {
	if kind == int32s || kind == float32s {
		return 4
	}
	return 8
}

// fixed is the number in its bytes.
func fixed(b []byte, kind physical) (c cell) {
	switch kind {
	case int32s:
		c.whole = int64(int32(binary.LittleEndian.Uint32(b)))
	case int64s:
		c.whole = int64(binary.LittleEndian.Uint64(b))
	case float32s:
		c.real = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case float64s:
		c.real = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return c
}

// dictionary is the values that indices stand for.
type dictionary struct {
	b     []byte
	kind  physical
	ends  []uint32 // of byte arrays
	count int
}

func newDictionary(b []byte, h pageHead, kind physical) (*dictionary, error) {
	d := &dictionary{b: b, kind: kind, count: int(h.values)}
	switch {
	case h.encoding != encPlain && h.encoding != encPlainDict:
		return nil, fmt.Errorf("a dictionary encoded by %s", encodingName(h.encoding))
	case kind == byteArrays:
		if len(b) > math.MaxInt32 || d.count > len(b)/4 {
			return nil, fmt.Errorf("a dictionary of %d values in %d bytes", d.count, len(b))
		}
		d.ends = make([]uint32, d.count)
		rest := b
		for i := range d.ends {
			var err error
			if _, rest, err = prefixed(rest); err != nil {
				return nil, err
			}
			d.ends[i] = uint32(len(b) - len(rest))
		}
		return d, nil
	case kind == booleans, kind == int96s, kind == fixedBytes:
		return nil, fmt.Errorf("a dictionary of %s", physicalNames[kind])
	case int64(d.count) > int64(len(b))/wideOf(kind):
		return nil, fmt.Errorf("a dictionary of %d values in %d bytes", d.count, len(b))
	}
	return d, nil
}

// at is value i.
func (d *dictionary) at(i uint32) (cell, error) {
	if int64(i) >= int64(d.count) {
		return cell{}, fmt.Errorf("index %d of a dictionary of %d", i, d.count)
	}
	if d.kind != byteArrays {
		n := wideOf(d.kind)
		return fixed(d.b[int64(i)*n:(int64(i)+1)*n], d.kind), nil
	}
	from := uint32(4)
	if i > 0 {
		from += d.ends[i-1]
	}
	return cell{bytes: d.b[from:d.ends[i]:d.ends[i]]}, nil
}

// hybrid reads runs of equal numbers, and numbers packed in bits, eight at a time.
type hybrid struct {
	b      []byte
	width  int
	left   uint64 // in the run
	run    uint32 // its number, unless it is packed
	packed []byte // nil: equal numbers
	bit    int
}

func (h *hybrid) next() (uint32, error) {
	for h.left == 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 {
			return 0, io.ErrUnexpectedEOF
		}
		h.b = h.b[n:]
		if h.packed = nil; head&1 == 0 {
			v, err := cut(&h.b, int64(h.width+7)/8)
			if err != nil {
				return 0, err
			}
			h.left, h.run = head>>1, 0
			for i, c := range v {
				h.run |= uint32(c) << (8 * i)
			}
			continue
		}
		groups := head >> 1
		if h.width > 0 { // the last group may be cut off
			groups = min(groups, uint64(len(h.b)/h.width+1))
		}
		size := min(int64(groups)*int64(h.width), int64(len(h.b)))
		h.left, h.run, h.bit = groups*8, 0, 0
		h.packed, _ = cut(&h.b, size)
	}
	h.left--
	if h.packed == nil {
		return h.run, nil
	}
	v, err := bitsOf(h.packed, h.bit, h.width)
	h.bit += h.width
	return uint32(v), err
}

// bitsOf is a number of width bits that begins at a bit.
func bitsOf(b []byte, at, width int) (v uint64, err error) {
	if at+width > 8*len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	for got := 0; got < width; {
		c, off := b[at/8], at%8
		n := min(8-off, width-got)
		v |= uint64(c>>off&(1<<n-1)) << got
		got, at = got+n, at+n
	}
	return v, nil
}

// delta reads whole numbers by their differences, which are packed in blocks.
type delta struct {
	b         compact
	minis     int // of a block
	per       int // numbers in one of them
	left      int64
	last, add int64
	widths    []byte
	mini      []byte // the one that is read
	in        int    // numbers read of it
	first     bool
}

func newDelta(b []byte) (*delta, error) {
	d := &delta{b: compact{b: b}, first: true}
	block, minis, total := d.b.uvarint(), d.b.uvarint(), d.b.uvarint()
	d.last = d.b.zigzag()
	if d.b.err != nil {
		return nil, d.b.err
	}
	if minis == 0 || minis > 1<<10 || block > 1<<20 || block/minis == 0 || block/minis%8 != 0 || block%minis != 0 || total > math.MaxInt32 {
		return nil, fmt.Errorf("differences in blocks of %d, of %d parts, %d in all", block, minis, total)
	}
	d.minis, d.per, d.left = int(minis), int(block/minis), int64(total)
	return d, nil
}

func (d *delta) next() (int64, error) {
	if d.left--; d.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if d.first {
		d.first = false
		return d.last, nil
	}
	if d.mini == nil || d.in == d.per {
		if len(d.widths) == 0 {
			d.add = d.b.zigzag()
			w, err := cut(&d.b.b, int64(d.minis))
			if err != nil {
				return 0, err
			}
			d.widths = w
		}
		width := int64(d.widths[0])
		if width > 64 {
			return 0, fmt.Errorf("differences of %d bits", width)
		}
		v, err := cut(&d.b.b, width*int64(d.per)/8)
		if err != nil {
			return 0, err
		}
		d.mini, d.in = v, 0
		if d.mini == nil {
			d.mini = []byte{}
		}
		d.widths = d.widths[1:]
	}
	width := 8 * len(d.mini) / d.per
	v, err := bitsOf(d.mini, d.in*width, width)
	d.in++
	d.last += d.add + int64(v)
	return d.last, err
}

// deltas reads n numbers, and returns them and the bytes after them.
func deltas(b []byte, n int) ([]int64, []byte, error) {
	d, err := newDelta(b)
	if err != nil {
		return nil, nil, err
	}
	if d.left != int64(n) {
		return nil, nil, fmt.Errorf("%d lengths for %d values", d.left, n)
	}
	out := make([]int64, n)
	for i := range out {
		if out[i], err = d.next(); err != nil {
			return nil, nil, err
		}
	}
	return out, d.b.b, nil
}

// deltaBytes reads values of which each begins as the one before it. They may be longer
// than their page, but not by much.
func deltaBytes(b []byte, n int) (func() (cell, error), error) {
	most := 1<<20 + 64*int64(len(b))
	prefixes, rest, err := deltas(b, n)
	if err != nil {
		return nil, err
	}
	lengths, rest, err := deltas(rest, n)
	var last []byte
	i := 0
	return func() (cell, error) {
		suffix, err := cut(&rest, lengths[i])
		if err != nil || prefixes[i] < 0 || prefixes[i] > int64(len(last)) {
			return cell{}, io.ErrUnexpectedEOF
		}
		if most -= prefixes[i] + lengths[i]; most < 0 {
			return cell{}, errors.New("values far longer than their page")
		}
		last = append(last[:prefixes[i]:prefixes[i]], suffix...)
		i++
		return cell{bytes: last}, nil
	}, err
}
