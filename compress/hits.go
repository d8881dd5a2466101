package compress

import (
	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

// hits is the wire format of sparsifiers that choose how many elements to send:
// the number as a varint, then the values, or with values nil one sign bit for
// each that stands for ±unit, then the index section (index.go).
type hits struct {
	d      int
	most   int // hits that a payload may hold: more than claimed would be sent by nobody
	index  string
	values *format
	unit   float32
}

// hitsMaxLen bounds a payload of up to n hits out of d, each with so many bits
// beside its index.
func hitsMaxLen(coding string, n, d, bitsEach int) int {
	most := 0
	switch coding {
	case "bitmap":
		most = bits.SignLen(d)
	case "raw32":
		most = 4 * min(n, max(0, d-1))
	case "varint":
		most = bits.UvarintMaxLen(n, d)
	default: // a Rice code takes 1+b bits and one for each 2ᵇ of gap: b grows as hits get fewer
		for k := 1; k <= n && k < d; k *= 2 {
			up := min(2*k, n)
			longest, shortest := bits.RiceParam(k, d), bits.RiceParam(up, d)
			most = max(most, (up*(1+longest)+d>>shortest+7)/8)
		}
	}
	return bits.UvarintMaxLen(1, n) + (n*bitsEach+7)/8 + most
}

// appendValues writes the elements val at ascending positions idx.
func (c *hits) appendValues(dst []byte, val []float32, idx []uint32) []byte {
	dst = bits.AppendUvarint(dst, uint32(len(idx)))
	dst = c.values.append(dst, val, f32.MaxAbs(val))
	if len(idx) == 0 {
		return dst
	}
	return appendIndices(dst, c.index, idx, c.d)
}

// AddTo checks the whole payload, then adds.
func (c *hits) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	n, size := bits.Uvarint(p)
	if size == 0 || int64(n) > int64(c.most) {
		return Corruptf("no number of hits up to %d", c.most)
	}
	k := int(n)
	p = p[size:]
	size = bits.SignLen(k)
	if c.values != nil {
		size = k * c.values.size
	}
	if len(p) < size {
		return Corruptf("%d bytes, want %d for %d hits", len(p), size, k)
	}
	values, index := p[:size], p[size:]
	if c.values != nil && !c.values.finite(values) {
		return Corruptf("a value is not finite")
	}
	if c.values == nil && !bits.SignsOK(values, k) {
		return Corruptf("padding is not zero")
	}
	if k == 0 && len(index) > 0 {
		return Corruptf("%d bytes of indices, want none", len(index))
	}
	if k == 0 {
		return nil
	}
	one := float32(scale * c.unit)
	if c.values == nil && asMask(c.index, k, c.d) {
		if !isMask(index, c.index, k, c.d) {
			return Corruptf("bits of indices are not %d of %d", k, c.d)
		}
		codec.AddSigned(dst, index, values, one)
		return nil
	}
	at, err := readIndices(index, c.index, k, c.d)
	if err != nil {
		return err
	}
	defer at.release()
	if c.values == nil {
		both := [2]float32{one, -one}
		for j, i := range at.idx {
			dst[i] += both[values[j>>3]>>uint(j&7)&1]
		}
		return nil
	}
	c.values.addAt(dst, at.idx, scale, values)
	return nil
}

// addAt adds scale times the values in p to the elements of dst at idx.
func (f *format) addAt(dst []float32, idx []uint32, scale float32, p []byte) {
	var v [batch]float32
	for len(idx) > 0 {
		n := min(batch, len(idx))
		f.read(v[:n], p[:n*f.size])
		for j, i := range idx[:n] {
			dst[i] += float32(scale * v[j])
		}
		idx, p = idx[n:], p[n*f.size:]
	}
}
