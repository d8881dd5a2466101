package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// strange are values that rounding, comparing and masking must get right.
var strange = []uint32{
	0, 1 << 31, 1, 1<<31 | 1, 0x007fffff, 0x00800000, // zeros, subnormals, the smallest normal
	0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, // infinities, the largest
	0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff, // NaNs
	0x7f7f7fff, 0x7f7f8000, 0x3f800000, 0x3f7fffff, 0x3f000000, // edges of bf16, 1, ½
}

// work is what a kernel gets: vectors and bytes at any alignment, and numbers.
type work struct {
	x, y    []float32
	b, c    []byte // as many bytes as elements
	scale   float32
	a, p, q float64
	key     rng.Key
	first   uint64
	k       int
	out     []any // results
}

// vector draws n elements at any offset from an alignment. Finite ones only
// where a kernel's contract says so.
func vector(t *rapid.T, n int, finite bool) []float32 {
	key, odd := rng.Key(rapid.Uint64().Draw(t, "key")), rapid.IntRange(0, 40).Draw(t, "odd in a hundred")
	x := make([]float32, n+8)[rapid.IntRange(0, 7).Draw(t, "offset"):][:n:n]
	for i := range x {
		u := key.Uint64(uint64(i))
		switch {
		case int(u%100) >= odd:
			x[i] = float32(key.With(1).Norm(uint64(i)))
		case u>>32&1 == 0:
			x[i] = math.Float32frombits(strange[u>>33%uint64(len(strange))])
		default:
			x[i] = math.Float32frombits(uint32(u >> 32))
		}
		if finite && math.Float32bits(x[i])&magnitude >= infinity {
			x[i] = 0
		}
	}
	return x
}

func draw(t *rapid.T, finite bool) *work {
	n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(0, 700)).Draw(t, "n")
	w := &work{
		x: vector(t, n, finite), y: vector(t, n, finite),
		b: make([]byte, n+32)[rapid.IntRange(0, 31).Draw(t, "offset"):][:n:n], c: make([]byte, n),
		scale: rapid.SampledFrom([]float32{0, 1, -1, 0.3, 1e30, -1e-40}).Draw(t, "scale"),
		a:     rapid.SampledFrom([]float64{0, 1, -2.5, 1e-3, 1e30}).Draw(t, "a"),
		p:     rapid.SampledFrom([]float64{0, 0.1, 1, 7.3, 1e38, 1e-300}).Draw(t, "p"),
		q:     rapid.SampledFrom([]float64{1, 3, 7, 254, 255}).Draw(t, "q"),
		key:   rng.Key(rapid.Uint64().Draw(t, "draws")),
		first: uint64(rapid.SampledFrom([]int{0, 16, 64, 1008, 1, 2, 8, 999}).Draw(t, "first")),
		k:     rapid.IntRange(1, 127).Draw(t, "k"),
	}
	for i := range w.b {
		w.b[i], w.c[i] = byte(w.key.With(2).Uint64(uint64(i))), byte(w.key.With(3).Uint64(uint64(i)))
	}
	return w
}

func (w *work) clone() *work {
	c := *w
	c.x, c.y, c.b, c.c = slices.Clone(w.x), slices.Clone(w.y), slices.Clone(w.b), slices.Clone(w.c)
	return &c
}

func (w *work) equal(v *work) error {
	for i := range w.x {
		for _, p := range [][2]float32{{w.x[i], v.x[i]}, {w.y[i], v.y[i]}} {
			if a, b := p[0], p[1]; math.Float32bits(a) != math.Float32bits(b) && (a == a || b == b) {
				return fmt.Errorf("element %d: %v (%#x), want %v (%#x)", i, a, math.Float32bits(a), b, math.Float32bits(b))
			}
		}
	}
	if !bytes.Equal(w.b, v.b) || !bytes.Equal(w.c, v.c) {
		return fmt.Errorf("bytes\n%v\n%v, want\n%v\n%v", w.b, w.c, v.b, v.c)
	}
	if got, want := fmt.Sprint(w.out...), fmt.Sprint(v.out...); got != want {
		return fmt.Errorf("result %s, want %s", got, want)
	}
	return nil
}

// width is from 1 to 8, codes are below 1<<width.
func (w *work) width() int {
	width := 1 + w.k%8
	for i := range w.b {
		w.b[i] &= byte(1<<width - 1)
	}
	return width
}

// reach is a threshold that some elements have.
func (w *work) reach() float32 {
	if len(w.x) == 0 || w.k%4 == 0 {
		return float32(w.k) / 100
	}
	return math.Float32frombits(max(1, min(infinity, math.Float32bits(w.x[w.k%len(w.x)])&magnitude)))
}

func (w *work) centroids() *Centroids {
	return NewCentroids([]float32{0.1, 0.4, 0.7, 0.9, 1.3, 1.6, 2.1, 2.7}[:1<<(w.k%4)])
}

func (w *work) power() []float32 {
	n := 1
	for 2*n <= len(w.x) {
		n *= 2
	}
	return w.x[:min(n, len(w.x))]
}

// kernels pairs every kernel with its twin.
var kernels = []struct {
	name         string
	finite       bool
	kernel, twin func(w *work)
}{
	{"Pack", false,
		func(w *work) { k := w.width(); Pack(w.c[:PackedLen(len(w.b), k)], w.b, k) },
		func(w *work) { k := w.width(); packGo(w.c[:PackedLen(len(w.b), k)], w.b, k) }},
	{"Unpack", false,
		func(w *work) { k := w.width(); Unpack(w.c, w.b[:PackedLen(len(w.b), k)], k) },
		func(w *work) { k := w.width(); unpackGo(w.c, w.b[:PackedLen(len(w.b), k)], k) }},
	{"MaxCode", false,
		func(w *work) {
			k := w.width()
			w.out = append(w.out, MaxCode(w.c[:PackedLen(len(w.b), k)], len(w.b), k))
		},
		func(w *work) {
			k := w.width()
			w.out = append(w.out, maxCodeGo(w.c[:PackedLen(len(w.b), k)], len(w.b), k))
		}},
	{"MaxByte", false,
		func(w *work) { w.out = append(w.out, MaxByte(w.b)) },
		func(w *work) { w.out = append(w.out, maxByteGo(w.b)) }},
	{"Levels", true,
		func(w *work) { Levels(w.c, w.x, w.levels(24), w.k, w.key, w.first) },
		func(w *work) { levelsGo(w.c, w.x, w.levels(24), w.k, w.key, w.first) }},
	{"AddLevels", false,
		func(w *work) { k := w.width(); AddLevels(w.x, w.scale, w.b, k, w.k, w.a, w.p) },
		func(w *work) { w.width(); addLevelsGo(w.x, w.scale, w.b, w.k, w.a, w.p) }},
	{"Steps", true,
		func(w *work) { Steps(w.c, w.x, float32(w.low()), w.levels(23), int(w.q), w.key, w.first) },
		func(w *work) {
			s := w.levels(23)
			stepsGo(w.c, w.x, s.Pre, float32(w.low())*s.Pre, s.PerLevel, float32(w.q)*(1<<23), w.key, w.first)
		}},
	{"NearestSteps", true,
		func(w *work) { NearestSteps(w.c, w.x, w.low(), w.p, w.q) },
		func(w *work) { nearestStepsGo(w.c, w.x, w.low(), w.p, w.q) }},
	{"Extent", false,
		func(w *work) {
			lo, hi, ok := Extent(w.x)
			w.out = append(w.out, math.Float32bits(lo), math.Float32bits(hi), ok)
		},
		func(w *work) {
			lo, hi := extentGo(w.x)
			finite := true
			for _, v := range w.x {
				finite = finite && v-v == 0
			}
			w.out = append(w.out, uint32(inOrder(lo)), uint32(inOrder(hi)), finite)
		}},
	{"Exponents", true,
		func(w *work) { Exponents(w.c, w.x, w.key, 4*w.first) },
		func(w *work) { exponentsGo(w.c, w.x, w.key, 4*w.first) }},
	{"AddExponents", false,
		func(w *work) { AddExponents(w.x, w.scale, w.b, w.c[:(len(w.x)+7)/8]) },
		func(w *work) { addExponentsGo(w.x, w.scale, w.b, w.c[:(len(w.x)+7)/8]) }},
	{"NearestFP16", false,
		func(w *work) { n := len(w.x) / 2; w.out = append(w.out, NearestFP16(w.c[:2*n], w.x[:n])) },
		func(w *work) { n := len(w.x) / 2; w.out = append(w.out, nearestFP16Go(w.c[:2*n], w.x[:n])) }},
	{"NearestBF16", false,
		func(w *work) { n := len(w.x) / 2; w.out = append(w.out, NearestBF16(w.c[:2*n], w.x[:n])) },
		func(w *work) { n := len(w.x) / 2; w.out = append(w.out, nearestBF16Go(w.c[:2*n], w.x[:n])) }},
	{"RandomBF16", false,
		func(w *work) {
			n := len(w.x) / 2
			w.out = append(w.out, RandomBF16(w.c[:2*n], w.x[:n], w.key, 4*w.first))
		},
		func(w *work) {
			n := len(w.x) / 2
			w.out = append(w.out, randomBF16Go(w.c[:2*n], w.x[:n], w.key, 4*w.first))
		}},
	{"RandomFP16", false,
		func(w *work) {
			n := len(w.x) / 2
			w.out = append(w.out, RandomFP16(w.c[:2*n], w.x[:n], w.key, 4*w.first))
		},
		func(w *work) {
			n := len(w.x) / 2
			w.out = append(w.out, randomFP16Go(w.c[:2*n], w.x[:n], w.key, 4*w.first))
		}},
	{"Ternary", false,
		func(w *work) { Ternary(w.c, w.x, w.reach()) },
		func(w *work) { ternaryGo(w.c, w.x, w.reach()) }},
	{"Ternary/zero", false,
		func(w *work) { Ternary(w.c, w.x, 0) },
		func(w *work) { ternaryGo(w.c, w.x, 0) }},
	{"AtLeast", false,
		func(w *work) {
			w.out = append(w.out, AtLeast(w.c[:(len(w.x)+7)/8], w.x, math.Float32bits(w.reach())))
		},
		func(w *work) {
			w.out = append(w.out, atLeastGo(w.c[:(len(w.x)+7)/8], w.x, math.Float32bits(w.reach())))
		}},
	{"count", false,
		func(w *work) { w.out = append(w.out, count(w.x, math.Float32bits(w.reach()))) },
		func(w *work) { w.out = append(w.out, countGo(w.x, math.Float32bits(w.reach()))) }},
	{"Reaching", false,
		func(w *work) { w.squeezed(Reaching) },
		func(w *work) { w.squeezed(reachingGo) }},
	{"Momentum", false,
		func(w *work) { w.momentum(Momentum) },
		func(w *work) { w.momentum(momentumGo) }},
	{"Band", false,
		func(w *work) { w.squeezed(w.band(Band)) },
		func(w *work) { w.squeezed(w.band(bandGo)) }},
	{"Between", false,
		func(w *work) { w.left(Between) },
		func(w *work) { w.left(betweenGo) }},
	{"SumOver", false,
		func(w *work) { w.out = append(w.out, SumOver(w.x, w.p, w.a)) },
		func(w *work) { w.out = append(w.out, sumOverGo(w.x, w.p, w.a)) }},
	{"Signs", true,
		func(w *work) {
			abs, sum := Signs(w.c[:(len(w.x)+7)/8], w.x)
			w.out = append(w.out, abs, sum)
		},
		func(w *work) {
			var s [32]float64
			signSumsGo(w.c[:(len(w.x)+7)/8], w.x, &s)
			w.out = append(w.out, f32.SumAbs(w.x), f32.Sum(w.x))
		}},
	{"dots", false,
		func(w *work) {
			m, q, c := w.matrix()
			var s [64]float32
			dots(&s, m, w.x[:len(m)], q, len(m), c)
			copy(w.x, s[:])
		},
		func(w *work) {
			m, q, c := w.matrix()
			var s [64]float32
			dotsGo(&s, m, w.x[:len(m)], q, len(m), c)
			copy(w.x, s[:])
		}},
	{"spread", false,
		func(w *work) { m, q, c := w.matrix(); spread(q, len(m), m, w.x[:len(m)], w.eight(), c) },
		func(w *work) { m, q, c := w.matrix(); spreadGo(q, len(m), m, w.x[:len(m)], w.eight(), c) }},
	{"combine", false,
		func(w *work) { m, q, c := w.matrix(); combine(m, w.scale, q, len(m), (*[4]float32)(w.eight()[2:]), c) },
		func(w *work) {
			m, q, c := w.matrix()
			combineGo(m, w.scale, q, len(m), (*[4]float32)(w.eight()[2:]), c)
		}},
	{"Hadamard", false,
		func(w *work) { Hadamard(w.power()) },
		func(w *work) { hadamardGo(w.power(), 1) }},
	{"ScaleTo", false,
		func(w *work) { ScaleTo(w.y, w.x, w.p) },
		func(w *work) { scaleToGo(w.y, w.x, w.p) }},
	{"Flip", false,
		func(w *work) { Flip(w.x, w.key, int(64*w.first)) },
		func(w *work) {
			var bits []byte
			for i := range len(w.x)/64 + 1 {
				bits = binary.LittleEndian.AppendUint64(bits, w.key.Uint64(w.first+uint64(i)))
			}
			flipGo(w.x, bits)
		}},
	{"Nearest", true,
		func(w *work) {
			dot, square := w.centroids().Nearest(w.c, w.x, w.p, 1+w.k%4)
			w.out = append(w.out, dot, square)
		},
		func(w *work) {
			var s [16]float64
			w.centroids().nearestGo(w.c, w.x, w.p, 1+w.k%4, &s)
			w.out = append(w.out, total(s[:8]), total(s[8:]))
		}},
	{"Lookup", false,
		func(w *work) { Lookup(w.x, w.nibbles(), w.values()) },
		func(w *work) { lookupGo(w.x, w.nibbles(), w.values()) }},
	{"EightBit", true,
		func(w *work) { EightBit(w.c, w.x, w.share(), w.cells()) },
		func(w *work) { eightBitGo(w.c, w.x, w.share(), w.cells()) }},
	{"AddEightBit", false,
		func(w *work) { AddEightBit(w.x, w.b, w.table()) },
		func(w *work) { addEightBitGo(w.x, w.b, w.table()) }},
	{"PutI8", false,
		func(w *work) { PutI8(w.c, w.whole(127)) },
		func(w *work) { put8Go(w.c, w.whole(127)) }},
	{"SetI8", false,
		func(w *work) { SetI8(w.x, w.b) },
		func(w *work) { set8Go(w.x, w.b) }},
	{"AddI8", false,
		func(w *work) { AddI8(w.x, w.b) },
		func(w *work) { add8Go(w.x, w.b) }},
	{"PutI16", false,
		func(w *work) { n := len(w.x) / 2; PutI16(w.c[:2*n], w.whole(32767)[:n]) },
		func(w *work) { n := len(w.x) / 2; put16Go(w.c[:2*n], w.whole(32767)[:n]) }},
	{"SetI16", false,
		func(w *work) { n := len(w.x) / 2; SetI16(w.x[:n], w.b[:2*n]) },
		func(w *work) { n := len(w.x) / 2; set16Go(w.x[:n], w.b[:2*n]) }},
	{"AddI16", false,
		func(w *work) { n := len(w.x) / 2; AddI16(w.x[:n], w.b[:2*n]) },
		func(w *work) { n := len(w.x) / 2; add16Go(w.x[:n], w.b[:2*n]) }},
	{"AddSigned", false,
		func(w *work) { AddSigned(w.x, w.b[:len(w.x)/8], w.c, w.scale) },
		func(w *work) {
			mask, signs := unpacked(w.b[:len(w.x)/8]), unpacked(w.c)
			addSignedSlowly(w.x, mask, signs, w.scale)
		}},
	{"Stairs", true,
		func(w *work) { w.stairs().Round(w.c, w.x, w.p, w.key, w.first&^1) },
		func(w *work) { w.stairs().roundGo(w.c, w.x, w.p, w.key, w.first&^1) }},
	{"Pick", false,
		func(w *work) { w.picked(Pick) },
		func(w *work) { w.picked(pickGo) }},
	{"SumsReach", false,
		func(w *work) { SumsReach(w.c[:(len(w.x)+7)/8], w.x, w.y, w.thresholds()) },
		func(w *work) { sumsReachGo(w.c[:(len(w.x)+7)/8], w.x, w.y, w.thresholds()) }},
	{"Shrink", false,
		func(w *work) { Shrink(w.x, w.reach()) },
		func(w *work) { shrinkGo(w.x, w.reach()) }},
	{"Places", false,
		func(w *work) { w.hashed(Places) },
		func(w *work) { w.hashed(placesGo) }},
	{"Look", false,
		func(w *work) { w.looked(Look) },
		func(w *work) { w.looked(lookGo) }},
	{"Median5", false,
		func(w *work) { dst, rows := w.five(); Median5(dst, rows) },
		func(w *work) { dst, rows := w.five(); median5Go(dst, rows, 0) }},
	{"Transpose", false,
		func(w *work) { h, k := w.sides(); w.doubles(func(d, s []float64) { Transpose(d, s, h, k) }, h*k) },
		func(w *work) { h, k := w.sides(); w.doubles(func(d, s []float64) { transposeGo(d, s, h, k) }, h*k) }},
	{"Widen", false,
		func(w *work) { w.doubles(func(d, _ []float64) { Widen(d, w.x) }, len(w.x)) },
		func(w *work) { w.doubles(func(d, _ []float64) { widenGo(d, w.x) }, len(w.x)) }},
	{"Narrow", false,
		func(w *work) { w.doubles(func(_, s []float64) { Narrow(w.x, s) }, len(w.x)) },
		func(w *work) { w.doubles(func(_, s []float64) { narrowGo(w.x, s) }, len(w.x)) }},
}

// stairs are those of a table of up to 64 entries.
func (w *work) stairs() *Stairs {
	top := 1 + w.k%127
	if w.k%2 == 0 {
		top = 1 + w.k/2%15
	}
	table := []int{-top}
	for z := 1 - top; z < top && len(table) < 63; z++ {
		if w.key.With(7).Uint64(uint64(z+top))%4 == 0 {
			table = append(table, z)
		}
	}
	return NewStairs(append(table, top))
}

// squeezed runs a kernel that pushes hits and their places together.
func (w *work) squeezed(kernel func(idx []uint32, val, x []float32, tau, first uint32) int) {
	idx, val := make([]uint32, len(w.x)+8), make([]float32, len(w.x)+8)
	n := kernel(idx, val, w.x, math.Float32bits(w.reach()), uint32(w.first))
	w.out = append(w.out, idx[:n])
	for _, v := range val[:n] {
		w.out = append(w.out, math.Float32bits(v))
	}
}

// picked runs a kernel that pushes together what a mask says.
func (w *work) picked(kernel func(dst, x []float32, mask []byte) int) {
	dst := make([]float32, len(w.x))
	n := kernel(dst, w.x[:len(w.x)/2], w.b)
	for _, v := range dst[:n] {
		w.out = append(w.out, math.Float32bits(v))
	}
}

// thresholds are some of the sums of x and y, and others, not negative.
func (w *work) thresholds() []float32 {
	tau := make([]float32, len(w.x))
	for i := range tau {
		if tau[i] = float32(i%5) / 2; i%3 == 0 {
			tau[i] = math.Float32frombits(min(infinity, math.Float32bits(w.x[i]+w.y[i])&magnitude))
		}
	}
	return tau
}

// left runs a kernel that keeps magnitudes, in place if k is odd.
func (w *work) left(kernel func(dst, x []float32, lo, hi uint32) int) {
	dst := w.x
	if w.k%2 == 0 {
		dst = make([]float32, len(w.x))
	}
	lo := math.Float32bits(w.reach())
	n := kernel(dst, w.x, lo, []uint32{lo, lo + 1<<23, infinity, 1 << 31}[w.k/2%4])
	for _, v := range dst[:n] {
		w.out = append(w.out, math.Float32bits(v))
	}
	clear(dst[n:]) // anything may be there
}

// share makes the largest element 1.
func (w *work) share() float64 {
	if m := f32.MaxAbs(w.x); m > 0 {
		return 1 / float64(m)
	}
	return 0
}

// cells are those of a few codes, some that begin where a cell does.
func (w *work) cells() *Cells {
	return NewCells([]float32{1e-30, 1e-6, 0.125, 0.13, 0.3, 0.5, 0.505, 0.9999, 1}[:1+w.k%9])
}

func (w *work) table() *[256]float32 {
	var v [256]float32
	copy(v[:], w.y)
	return &v
}

// whole makes x whole numbers up to most.
func (w *work) whole(most int) []float32 {
	for i := range w.x {
		w.x[i] = float32(int(w.key.With(5).Uint64(uint64(i))%uint64(2*most+1)) - most)
	}
	return w.x
}

// unpacked are the bits of a mask.
func unpacked(mask []byte) (bits []byte) {
	for _, b := range mask {
		for i := range 8 {
			bits = append(bits, b>>i&1)
		}
	}
	return bits
}

// addSignedSlowly is what AddSigned says, bit by bit.
func addSignedSlowly(dst []float32, mask, signs []byte, plus float32) {
	j := 0
	for i, set := range mask {
		if set == 1 {
			dst[i] += [2]float32{plus, -plus}[signs[j]]
			j++
		}
	}
}

// hashed runs a kernel that hashes into two rows.
func (w *work) hashed(kernel func(a, b []uint32, cols int, key rng.Key, first, pair uint64)) {
	a, b := make([]uint32, len(w.x)), make([]uint32, len(w.x))
	kernel(a, b, 1+w.k*w.k*w.k, w.key, w.first, uint64(w.k%8))
	w.out = append(w.out, a, b)
}

// looked runs a kernel that looks up places of a table.
func (w *work) looked(kernel func(dst, table []float32, places []uint32)) {
	places := make([]uint32, len(w.x))
	for i := range places {
		draw := w.key.With(6).Uint64(uint64(i))
		places[i] = uint32(draw>>33)%uint32(len(w.y)) | uint32(draw)<<31
	}
	kernel(w.x, w.y, places)
}

// five is a vector and five rows of its length.
func (w *work) five() (dst []float32, rows *[5][]float32) {
	rows, n := new([5][]float32), len(w.y)/5
	for j := range rows {
		rows[j] = w.y[j*n : (j+1)*n]
	}
	return w.x[:n], rows
}

// sides are those of a matrix.
func (w *work) sides() (h, k int) {
	h = 1 + w.k%20
	if w.k%3 == 0 {
		h = 4 + 4*(w.k%5)
	}
	k = len(w.x) / h
	if w.k%3 == 0 {
		k &^= 3
	}
	return h, k
}

// doubles runs a kernel on n numbers of float64 and n others, and leaves their bits in out.
func (w *work) doubles(kernel func(dst, src []float64), n int) {
	dst, src := make([]float64, n+1)[1:], make([]float64, n+1)[1:]
	for i := range src {
		src[i] = float64(w.x[i]) * (1 + w.a/3)
	}
	kernel(dst, src)
	for _, v := range append(dst, src...) {
		w.out = append(w.out, math.Float64bits(v))
	}
}

// A share has the code of the last cut that it reaches.
func TestCells(t *testing.T) {
	cuts := []float32{math.SmallestNonzeroFloat32, 1e-9, 0.1, 0.25, 0.26, 0.9, 1}
	cells := NewCells(cuts)
	for i, cut := range cuts {
		below := math.Nextafter32(cut, 0)
		x, codes := []float32{below, cut, -cut}, make([]byte, 3)
		eightBitGo(codes, x, 1, cells)
		if want := []byte{byte(i), byte(i + 1), byte(i+1) | 128}; !bytes.Equal(codes, want) {
			t.Errorf("beside %v: codes %v, want %v", cut, codes, want)
		}
	}
	if NewCells([]float32{0.501, 0.5011}) != nil {
		t.Error("two cuts in a cell")
	}
}

// levels is the scale of some norm: nothing overflows with the finite elements
// that vector draws only for norms that are not tiny.
func (w *work) levels(bits int) Scale {
	norm := w.p
	for _, v := range w.x {
		norm = max(norm, math.Abs(float64(v)))
	}
	return NewScale(1+w.k%int(w.q), bits, norm)
}

// matrix is a row, and one to four rows of its length.
func (w *work) matrix() (row, q []float32, columns int) {
	columns = 1 + w.k%4
	n := len(w.y) / (columns + 1)
	return w.y[:n], w.y[n : n*(columns+1)], columns
}

func (w *work) eight() *[8]float32 {
	var a [8]float32
	for i := range a {
		a[i] = float32(w.key.With(4).Norm(uint64(i)))
	}
	return &a
}

// low is not above any element.
func (w *work) low() float64 {
	var lo float32
	for _, v := range w.x {
		lo = min(lo, v)
	}
	return float64(lo)
}

// band is Reaching below twice its threshold.
func (w *work) band(f func(idx []uint32, val, x []float32, lo, hi, first uint32) int) func(idx []uint32, val, x []float32, tau, first uint32) int {
	return func(idx []uint32, val, x []float32, tau, first uint32) int {
		return f(idx, val, x, tau, tau+1<<23, first)
	}
}

func (w *work) momentum(step func(u, v, g []float32, sent []byte, m, scale float32) uint32) {
	g := slices.Clone(w.y)
	slices.Reverse(g)
	most := step(w.x, w.y, g, w.b[:(len(w.x)+7)/8], 0.9, w.scale)
	w.out = append(w.out, min(most, infinity)) // of two NaNs either
}

func (w *work) nibbles() []byte {
	for i := range w.b {
		w.b[i] &= 15
	}
	return w.b
}

func (w *work) values() *[16]float32 {
	var v [16]float32
	copy(v[:], w.y)
	return &v
}

// Every kernel gives the bits of its twin, at any length and alignment; so do those of
// lesser processors.
func TestKernelsAreTheirTwins(t *testing.T) {
	cpu.Each(func(kind string) {
		for i, k := range kernels {
			t.Run(kind+"/"+k.name, rapid.MakeCheck(func(t *rapid.T) { agree(t, i) }))
		}
	})
}

// FuzzKernels is the same on what a fuzzer thinks of.
func FuzzKernels(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { agree(t, rapid.IntRange(0, len(kernels)-1).Draw(t, "kernel")) }))
}

func agree(t *rapid.T, kernel int) {
	k := kernels[kernel]
	w := draw(t, k.finite)
	want := w.clone()
	k.kernel(w)
	k.twin(want)
	if err := w.equal(want); err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
}

// An element goes to one of the entries around it, and is right on average; what is
// beyond the ends goes to them.
func TestStairs(t *testing.T) {
	table := []int{-9, -4, -1, 1, 4, 9}
	const n = 1 << 15
	y, codes, key := make([]float32, n), make([]byte, n), rng.New(1, "stairs")
	for _, c := range []struct {
		y    float32
		low  int
		mean float64
	}{{0, 2, 0}, {0.5, 2, 1}, {1.25, 3, 2.5}, {2, 4, 4}, {-0.75, 1, -1.5}, {4.5, 5, 9}, {1e30, 5, 9}, {-1e30, 0, -9}, {-3, 0, -6}} {
		f32.Fill(y, c.y)
		NewStairs(table).Round(codes, y, 2, key, 0)
		var sum float64
		for _, code := range codes {
			if int(code) != c.low && int(code) != c.low+1 {
				t.Fatalf("%v goes to entry %d", c.y, code)
			}
			sum += float64(table[code])
		}
		if off := sum/n - c.mean; math.Abs(off) > 0.1 {
			t.Errorf("%v becomes %v on average, want %v", c.y, sum/n, c.mean)
		}
	}
}

// All sizes of a transform, to the largest a codec asks for.
func TestHadamardSizes(t *testing.T) {
	key := rng.New(1, "hadamard")
	for n := 1; n <= 1<<16; n *= 2 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(key.Norm(uint64(i)))
		}
		want := slices.Clone(x)
		hadamardGo(want, 1)
		cpu.Each(func(kind string) {
			y := slices.Clone(x)
			if Hadamard(y); !slices.Equal(y, want) {
				t.Fatalf("%s, %d elements: not the twin's", kind, n)
			}
		})
	}
}

// Bytes in, the codes they hold out, and back the same bytes but for padding.
func FuzzPack(f *testing.F) {
	f.Add([]byte("some bytes that are longer than a few words of sixty-four bits, and odd"), 3)
	f.Fuzz(func(t *testing.T, p []byte, width int) {
		width = 1 + int(uint(width)%8)
		n := 8 * len(p) / width
		p = p[:PackedLen(n, width)]
		codes, want := make([]byte, n), make([]byte, n)
		Unpack(codes, p, width)
		unpackGo(want, p, width)
		if !bytes.Equal(codes, want) {
			t.Fatalf("width %d: codes %v, want %v", width, codes, want)
		}
		back := make([]byte, len(p))
		Pack(back, codes, width)
		if pad := uint(n * width % 8); pad != 0 {
			p = slices.Clone(p)
			p[len(p)-1] &= 1<<pad - 1
		}
		if !bytes.Equal(back, p) {
			t.Fatalf("width %d: came back as %x, want %x", width, back, p)
		}
	})
}

// Any bytes below 243 are five trits.
func TestTrits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOf(rapid.ByteRange(0, 2)).Draw(t, "codes")
		p, back := make([]byte, TritLen(len(codes))), make([]byte, len(codes))
		PackTrits(p, codes)
		for i, b := range p {
			want, weight := 0, 1
			for _, c := range codes[5*i : min(5*i+5, len(codes))] {
				want += int(c) * weight
				weight *= 3
			}
			if int(b) != want {
				t.Fatalf("byte %d is %d, want %d", i, b, want)
			}
		}
		if UnpackTrits(back, p); !bytes.Equal(back, codes) {
			t.Fatalf("came back as %v", back)
		}
	})
}

// Positions are those of a plain loop, up to the first block with a NaN or Inf.
func TestAppendReaching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := vector(t, rapid.IntRange(0, 9000).Draw(t, "n"), true)
		tau := rapid.Float32Range(0, 3).Draw(t, "tau")
		want, values := []uint32{7}, []float32{7}
		for i, v := range x {
			if v >= tau || v <= -tau {
				want, values = append(want, uint32(i)), append(values, v)
			}
		}
		got, val, ok := AppendReaching([]uint32{7}, []float32{7}, x, math.Float32bits(tau))
		if !ok || !slices.Equal(got, want) || !slices.Equal(val, values) {
			t.Fatalf("%v %v %v, want %v %v", got, val, ok, want, values)
		}
		if len(x) > 0 {
			x[rapid.IntRange(0, len(x)-1).Draw(t, "at")] = float32(math.NaN())
			if _, _, ok := AppendReaching(nil, nil, x, math.Float32bits(tau)); ok {
				t.Fatal("a NaN went unnoticed")
			}
		}
	})
}

// A cut leaves as many elements as were asked for, with ties and without.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := vector(t, rapid.IntRange(1, 600).Draw(t, "n"), true)
		if rapid.Bool().Draw(t, "ties") {
			for i := range x {
				x[i] = float32(math.Round(float64(x[i])))
			}
		}
		k := rapid.IntRange(1, len(x)).Draw(t, "k")
		tau, ties := Cut(x, k, make([]float32, len(x)))
		beyond, equal := countGo(x, tau+1), countGo(x, tau)-countGo(x, tau+1)
		if beyond+ties != k || ties < 0 || ties > equal {
			t.Fatalf("%d beyond %#x, %d equal to it, of which %d: want %d", beyond, tau, equal, ties, k)
		}
	})
}

// The transform is symmetric, and its square is n times the identity.
func TestHadamardMatrix(t *testing.T) {
	for n := 1; n <= 256; n *= 2 {
		for i := range n {
			x := make([]float32, n)
			x[i] = 1
			Hadamard(x)
			for j, v := range x {
				want := float32(1)
				for k := i & j; k > 0; k &= k - 1 {
					want = -want
				}
				if v != want {
					t.Fatalf("n=%d: entry (%d, %d) is %v, want %v", n, i, j, v, want)
				}
			}
		}
	}
}

// Factors of any shape are what float64 makes of them.
func TestFactors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols, r := rapid.IntRange(1, 20).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "cols"), rapid.IntRange(1, 9).Draw(t, "r")
		key := rng.New(rapid.Uint64().Draw(t, "seed"), "factors")
		normal := func(n int, what uint64) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(key.With(what).Norm(uint64(i)))
			}
			return x
		}
		near := func(what string, got float32, want float64) {
			if math.Abs(float64(got)-want) > 1e-4 {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		m, p, qt := normal(rows*cols, 1), normal(rows*r, 2), normal(r*cols, 3)
		left, right, sum := make([]float32, rows*r), make([]float32, r*cols), slices.Clone(m)
		LeftFactor(left, m, qt, rows, cols, r)
		RightFactor(right, p, m, rows, cols, r)
		AddFactors(sum, -0.5, p, qt, rows, cols, r)
		for c := range r {
			for i := range rows {
				want := 0.0
				for j := range cols {
					want += float64(m[i*cols+j]) * float64(qt[c*cols+j])
				}
				near("left", left[i*r+c], want)
			}
			for j := range cols {
				want := 0.0
				for i := range rows {
					want += float64(m[i*cols+j]) * float64(p[i*r+c])
				}
				near("right", right[c*cols+j], want)
			}
		}
		for i := range rows {
			for j := range cols {
				want := float64(m[i*cols+j])
				for c := range r {
					want -= 0.5 * float64(p[i*r+c]) * float64(qt[c*cols+j])
				}
				near("sum", sum[i*cols+j], want)
			}
		}
	})
}
