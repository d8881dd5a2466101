package compress

// sampled top-k keeps what lies beyond a threshold found in a sample:
//
//	C(g)ᵢ = gᵢ if |gᵢ| ≥ τ, else 0;  τ from the k·n/d-th largest of n elements
//
// Lin et al. 2018 (DGC, arXiv 1712.01887, section 3) and Aji and Heafield 2017
// sample 0.1 to 1 % of the elements. Here the sample is large enough for 64 of the
// k to be in it, so that in one of thousands of blocks of independent elements the
// count leaves ⌈k/2⌉ … 2k. Where it does, and in blocks so short that a sample
// saves nothing, the k largest are chosen exactly. What is sent are the largest in
// any case, so ‖C(g)−g‖² ≤ (1 − ⌈k/2⌉/d)‖g‖².
// Departures: both papers sample anew in each step; places here are fixed, one in
// each stretch of the block. Their fix-ups of a bad threshold are the exact choice.
// Tuning: as topk, which takes half as long again and sends k to the element.

// least is how few of d elements travel.
func (f TopK) least(d int) int {
	k := f.total(d)
	if samplesFor(k, d) == 0 {
		return k
	}
	return (k + 1) / 2
}

// most is how many of d elements travel at most.
func (f TopK) most(d int) int {
	k := f.total(d)
	if samplesFor(k, d) == 0 {
		return k
	}
	return min(2*k, d)
}

func (f TopK) sampledClaims(b Block) Claims {
	d, v := b.Len(), formatOf(f.Values)
	k := f.total(d)
	c := Claims{Delta: 1, Size: hitsMaxLen(word(f.Index, "rice"), f.most(d), d, 8*v.size), Homogeneous: v != &formatFP16}
	if d > 0 {
		c.Delta = float64(f.least(d)) / float64(d) * (1 - float64(v.unit*v.unit))
	}
	if k == d && v == &formatF32 {
		c.Lossless, c.Unbiased = true, true
	}
	return c
}

func (f TopK) newSampled(b Block) Codec {
	return &sampledTopK{k: f.total(b.Len()), hits: hits{d: b.Len(), most: f.most(b.Len()), index: word(f.Index, "rice"), values: formatOf(f.Values)}}
}

type sampledTopK struct {
	hits
	k   int
	sel selector
	idx []uint32
	val []float32
}

func (c *sampledTopK) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.k == 0 {
		return c.appendValues(dst, nil, nil), nil
	}
	if c.val == nil {
		c.idx, c.val = make([]uint32, 0, 2*c.k), make([]float32, 0, 2*c.k)
	}
	var ok bool
	if c.idx, c.val, ok = c.sel.about(c.idx[:0], c.val[:0], g, c.k); !ok {
		return dst, ErrNotFinite
	}
	return c.appendValues(dst, c.val, c.idx), nil
}
