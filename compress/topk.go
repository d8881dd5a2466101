package compress

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/f32"
)

var topKDefault = Families.Add("topk", "the k largest entries",
	TopK{Keep: 0.01, Index: "rice", Values: "f32"})

// TopK keeps the k elements of largest magnitude, k = max(1, ⌈keep·d⌉).
//
//	C(g)ᵢ = gᵢ if |gᵢ| is among the k largest, else 0
//	chunk=n: the same in every n elements by themselves
//
// Aji and Heafield 2017 (arXiv 1704.05021); contraction: Stich et al. 2018, eq.
// 6: ‖C(g)−g‖² ≤ (1−k/d)‖g‖², met with equality by a flat vector.
//
// Departures: exact k with ties to the lower index, where the papers cut at a
// sampled threshold (sampled=true, see sampled.go); indices are Rice coded.
// Chunks (DeMo, arXiv 2411.19870; SparseLoCo, arXiv 2508.15706: 64 of 4096
// inside feedback with decay=0.95) spread what is sent over the block and bound
// the range of an index. δ is that of the chunk that keeps least.
//
// Tuning: feedback(topk(keep=0.01)); index=bitmap from keep ≈ 0.15 on;
// index=block with chunks is SparseLoCo's 12 bits, where rice takes 7.5.
//
// Cost: k·(4 + 1.0) bytes at 1 %, one pass over the vector and no sort.
//
// Payload: k values, then the index section (index.go); for sampled see hits.go.
type TopK struct {
	Keep    float64 `spec:",show" doc:"fraction kept, in (0, 1]"`
	Index   string  `doc:"index coding: rice, varint, bitmap, raw32, or block with chunks"`
	Values  string  `doc:"value format: f32, bf16 or fp16"`
	Chunk   int     `doc:"elements chosen among by themselves; 0: the whole block"`
	Sampled bool    `doc:"about as many, from a threshold that a sample of the elements gives"`
}

// Validate checks the options.
func (f TopK) Validate() error {
	if err := validKeep(f.Keep); err != nil {
		return err
	}
	if f.Chunk < 0 {
		return fmt.Errorf(`option "chunk": want a length, or 0 for the whole block, not %d`, f.Chunk)
	}
	if f.Sampled && f.Chunk > 0 {
		return errors.New(`option "sampled": chunks are chosen from exactly; leave out sampled or chunk`)
	}
	if f.Index == "block" && f.Chunk == 0 {
		return errors.New(`option "index": block counts from the start of a chunk: set chunk too`)
	}
	if err := oneOf("index", f.Index, append(indexCodings, "block")...); err != nil {
		return err
	}
	return oneOf("values", f.Values, "f32", "bf16", "fp16")
}

// chunks is the chunk length on d elements, and what a full and the last, short
// chunk keep.
func (f TopK) chunks(d int) (chunk, k, last int) {
	if chunk = f.Chunk; chunk == 0 || chunk > d {
		chunk = max(1, d)
	}
	if rest := d % chunk; rest > 0 {
		last = kept(f.Keep, rest)
	}
	return chunk, kept(f.Keep, min(chunk, d)), last
}

// total is how many of d elements travel.
func (f TopK) total(d int) int {
	chunk, k, last := f.chunks(d)
	return d/chunk*k + last
}

// Claims: Delta = k/d, times 1 − unit² for the rounding of values.
func (f TopK) Claims(b Block) Claims {
	if f.Sampled {
		return f.sampledClaims(b)
	}
	d, v := b.Len(), formatOf(f.Values)
	k := f.total(d)
	size, exact := indexSize(word(f.Index, "rice"), k, d)
	if chunk, each, _ := f.chunks(d); f.Index == "varint" && k < d && 2*(chunk-each) < 128 {
		size, exact = k, true // no gap, not even over two chunks, takes a second byte
	}
	if f.Index == "block" {
		size, exact = blockSize(k, d, f.Chunk), true
	}
	c := Claims{Delta: 1, Size: k*v.size + size, Exact: exact, Homogeneous: v != &formatFP16}
	if d > 0 {
		lo, hi := f.poorest(d)
		c.Delta = float64(kept(f.Keep, hi-lo)) / float64(hi-lo) * (1 - float64(v.unit*v.unit))
	}
	c.Cast = k == d && exact && size == 0
	if k == d && v == &formatF32 {
		c.Lossless, c.Unbiased, c.Raw = true, true, exact && size == 0
	}
	return c
}

// poorest is the chunk of which the smallest share is kept.
func (f TopK) poorest(d int) (lo, hi int) {
	chunk, k, last := f.chunks(d)
	if rest := d % chunk; rest > 0 && last*chunk < k*rest {
		return d - rest, d
	}
	return 0, min(chunk, d)
}

// Witness is a flat chunk, at a value that rounds badly, and nothing else; nil
// where a sample decides, which a flat block does not mislead.
func (f TopK) Witness(b Block) []float32 {
	if f.Sampled && f.least(b.Len()) < f.total(b.Len()) {
		return nil
	}
	x := make([]float32, b.Len())
	lo, hi := f.poorest(b.Len())
	f32.Fill(x[lo:hi], 1+float32(formatOf(f.Values).unit))
	return x
}

// New makes a codec without state; it holds k positions and values.
func (f TopK) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Sampled {
		return f.newSampled(b), nil
	}
	c := &topK{d: b.Len(), k: f.total(b.Len()), index: word(f.Index, "rice"), values: formatOf(f.Values)}
	c.chunk, c.each, c.last = f.chunks(c.d)
	return c, nil
}

type topK struct {
	d, k   int
	chunk  int
	each   int // kept of a full chunk
	last   int // of the short one
	index  string
	values *format
	sel    selector
	idx    []uint32
	val    []float32
}

func (c *topK) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.k == 0 {
		return dst, nil
	}
	if c.k == c.d { // no selection, but still no NaN
		m := f32.MaxAbs(g)
		if !f32.AllFinite(g) {
			return dst, ErrNotFinite
		}
		return c.values.append(dst, g, m), nil
	}
	if cap(c.idx) < c.k {
		c.idx, c.val = make([]uint32, 0, c.k), make([]float32, 0, c.k)
	}
	c.idx, c.val = c.idx[:0], c.val[:0]
	for lo := 0; lo < c.d; lo += c.chunk {
		hi, k := lo+c.chunk, c.each
		if hi > c.d {
			hi, k = c.d, c.last
		}
		at := len(c.idx)
		var ok bool
		if c.idx, c.val, ok = c.sel.largest(c.idx, c.val, g[lo:hi], k); !ok {
			return dst, ErrNotFinite
		}
		for j := range c.idx[at:] {
			c.idx[at+j] += uint32(lo)
		}
	}
	dst = c.values.append(dst, c.val, f32.MaxAbs(c.val))
	if c.index == "block" {
		return appendBlocks(dst, c.idx, c.d, c.chunk), nil
	}
	return appendIndices(dst, c.index, c.idx, c.d), nil
}

// AddTo checks the whole payload, then adds.
func (c *topK) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	n := c.k * c.values.size
	if len(p) < n {
		return Corruptf("%d bytes, want %d of values", len(p), n)
	}
	values, index := p[:n], p[n:]
	if !c.values.finite(values) {
		return Corruptf("a value is not finite")
	}
	if c.k == c.d && len(index) == 0 {
		c.values.addTo(dst, scale, values)
		return nil
	}
	if c.index == "block" {
		return c.addBlocks(dst, scale, values, index)
	}
	at, err := readIndices(index, c.index, c.k, c.d)
	if err != nil {
		return err
	}
	defer at.release()
	c.values.addAt(dst, at.idx, scale, values)
	return nil
}

// addBlocks is AddTo for index=block.
func (c *topK) addBlocks(dst []float32, scale float32, values, index []byte) error {
	if want := blockSize(c.k, c.d, c.chunk); len(index) != want {
		return Corruptf("%d bytes of indices, want %d", len(index), want)
	}
	width := uint(blockWidth(c.d, c.chunk))
	for _, add := range []bool{false, true} { // check all, then add
		r, j := bits.NewReader(index), 0
		for lo := 0; lo < c.d; lo += c.chunk {
			hi, k := min(lo+c.chunk, c.d), c.each
			if hi-lo < c.chunk {
				k = c.last
			}
			for next := lo; k > 0; k-- {
				v, ok := r.Get(width)
				i := lo + int(v)
				if !ok || i < next || i >= hi {
					return Corruptf("index %d of %d", j, c.k)
				}
				if add {
					dst[i] += float32(scale * c.values.get(values, j))
				}
				next = i + 1
				j++
			}
		}
		if !r.Done() {
			return Corruptf("bytes behind the last index")
		}
	}
	return nil
}
