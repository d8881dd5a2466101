package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("float8", "8-bit floats with a scale for each bucket", Float8{Format: "e4m3", Bucket: 4096})

// Float8 sends a byte an element: the nearest of 256 fixed values, scaled by the
// bucket's largest magnitude.
//
//	C(g)ᵢ = m·nearest(gᵢ/m),  m = max|g| of the bucket (over the largest value)
//
//	format=e4m3, e5m2: the 8-bit floats of Micikevicius et al. 2022 (arXiv
//	  2209.05433), 4 or 5 exponent bits; ties to even
//	format=dynamic: a sign, a decimal exponent in unary and a linear fraction in
//	  what is left, from 1e-7 to 1 (Dettmers 2015, arXiv 1511.04561, section 2)
//
// An element is off by a share of itself, 2⁻⁴ (e4m3) or 2⁻³ (e5m2), or below the
// smallest normal value by a share of m: at most 2⁻¹⁸ and 2⁻³². Dynamic steps
// are finest near powers of ten from above: 2⁻³ of an element from m/100 on,
// 2⁻¹¹ of m below. An element so small is off by no more than itself, as 0 is a
// value, and the largest is exact. With S the squared error of the small ones, S
// ≤ (n−1)·floor²·m² and ‖g‖² ≥ m² + S + (the others'), so ‖C(g)−g‖²/‖g‖² is at
// most share² or (n−1)·floor²/(1 + (n−1)·floor²), whichever is more: a
// contraction at any length.
//
// Departures: scales are float32 and not powers of two, so the largest element
// is exact up to rounding; buckets of 4096, as 8-bit optimizers have them.
//
// Tuning: e4m3 or dynamic, bucket=4096, feedback(float8(format=e4m3)) only for
// small learning rates.
//
// Cost: 8 + 32/bucket bits.
//
// Payload: all scales, then a byte an element.
type Float8 struct {
	Format string `spec:",show" doc:"e4m3, e5m2 or dynamic"`
	Bucket int    `doc:"elements that share a scale; 0: the whole block"`
}

// Validate checks the options.
func (f Float8) Validate() error {
	if f.Bucket < 0 {
		return fmt.Errorf(`option "bucket": want a length, or 0 for the whole block, not %d`, f.Bucket)
	}
	return oneOf("format", f.Format, "e4m3", "e5m2", "dynamic")
}

// table8 is the values of a format: positive ones ascending from 0, up to 128.
type table8 struct {
	values []float32 // by magnitude code
	cuts   []float32 // cuts[i] is where magnitude i+1 begins
	share  float64   // relative error in the normal range
	floor  float64   // absolute error below that, for a largest value of 1

	once  sync.Once
	cells *codec.Cells // finds codes; made when first needed
}

// find makes the cells.
func (t *table8) find() *codec.Cells {
	t.once.Do(func() { t.cells = codec.NewCells(t.cuts) })
	return t.cells
}

var tables8 = map[string]*table8{
	"e4m3": floatTable(4, 3, 126), "e5m2": floatTable(5, 2, 123), "dynamic": dynamicTable(),
}

// floatTable lists a format's magnitudes up to code last (what lies beyond is
// NaN and Inf), over its largest value.
func floatTable(exponent, fraction, last int) *table8 {
	t := &table8{share: math.Ldexp(1, -fraction-1)}
	bias := 1<<(exponent-1) - 1
	value := func(code int) float64 {
		e, m := code>>fraction, float64(code&(1<<fraction-1))
		if e == 0 {
			return math.Ldexp(m, 1-bias-fraction)
		}
		return math.Ldexp(m+float64(int(1)<<fraction), e-bias-fraction)
	}
	top := value(last)
	t.floor = value(1) / top / 2
	for code := range last + 1 {
		t.values = append(t.values, float32(value(code)/top))
	}
	// Where two values are equally near the even code wins: a cut belongs to
	// the upper value if that is even.
	for code := range last {
		cut := float32((value(code) + value(code+1)) / 2 / top)
		if code&1 == 0 { // the lower one is even
			cut = math.Nextafter32(cut, 2)
		}
		t.cuts = append(t.cuts, cut)
	}
	return t
}

// dynamicTable lists the magnitudes with e leading zeros, an indicator bit and
// a fraction in the 6−e bits left, 10⁻ᵉ·(0.1 + 0.9·(k+½)/2⁶⁻ᵉ), over the largest
// of them; and zero.
func dynamicTable() *table8 {
	t := &table8{values: []float32{0}}
	const top = 0.1 + 0.9*63.5/64
	for e := range 7 {
		n := 1 << (6 - e)
		for k := range n {
			t.values = append(t.values, float32(math.Pow10(-e)*(0.1+float64(0.9*(float64(k)+0.5)/float64(n)))/top))
		}
	}
	sort.Slice(t.values, func(i, j int) bool { return t.values[i] < t.values[j] })
	for i := range t.values[1:] {
		lo, hi := float64(t.values[i]), float64(t.values[i+1])
		cut := (lo + hi) / 2
		t.cuts = append(t.cuts, float32(cut))
		if half := (hi - lo) / 2; cut < 0.01 {
			t.floor = max(t.floor, half)
		} else {
			t.share = max(t.share, half/cut)
		}
	}
	return t
}

// Claims: the bound above, less the rounding of float32.
func (f Float8) Claims(b Block) Claims {
	bucket, buckets := bucketsOf(f.Bucket, b.Len())
	c := Claims{Size: 4*buckets + b.Len(), Exact: true, Homogeneous: true}
	if t := tables8[word(f.Format, "e4m3")]; t != nil {
		small := float64(max(0, float64(bucket)-1) * t.floor * t.floor)
		c.Delta = min(1-float64(t.share*t.share), 1/(1+small)) - 1e-6
	}
	return c
}

// New makes a codec without state.
func (f Float8) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &float8{d: b.Len(), table: tables8[word(f.Format, "e4m3")]}
	c.cells = c.table.find()
	c.bucket, c.buckets = bucketsOf(f.Bucket, c.d)
	return c, nil
}

type float8 struct {
	d, bucket, buckets int
	table              *table8
	cells              *codec.Cells
}

func (c *float8) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, 4*c.buckets+c.d)
	for lo := 0; lo < c.d; lo += c.bucket {
		m := f32.MaxAbs(g[lo:min(lo+c.bucket, c.d)])
		if !(m <= math.MaxFloat32) {
			return dst[:at], ErrNotFinite
		}
		dst = formatF32.put(dst, m)
	}
	scales, codes := dst[at:], dst[len(dst):len(dst)+c.d]
	for lo := 0; lo < c.d; lo += c.bucket {
		var inv float64
		if m := formatF32.get(scales, lo/c.bucket); m > 0 {
			inv = 1 / float64(m)
		}
		hi := min(lo+c.bucket, c.d)
		codec.EightBit(codes[lo:hi], g[lo:hi], inv, c.cells)
	}
	return dst[:len(dst)+c.d], nil
}

// allowed reports whether all codes stand for one of n values, at most 128.
func allowed(codes []byte, n int) bool {
	const each = 0x0101010101010101
	over, add := uint64(0), uint64(128-n)*each
	for ; len(codes) >= 8; codes = codes[8:] {
		over |= binary.LittleEndian.Uint64(codes)&(127*each) + add
	}
	for _, b := range codes {
		over |= uint64(b&127) + uint64(128-n)
	}
	return over&(128*each) == 0
}

func (c *float8) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	n := 4 * c.buckets
	if len(p) != n+c.d {
		return Corruptf("%d bytes, want %d", len(p), n+c.d)
	}
	if err := checkNorms(p[:n]); err != nil {
		return err
	}
	codes := p[n:]
	if !allowed(codes, len(c.table.values)) {
		return Corruptf("a byte is no number")
	}
	var values [256]float32
	for k, lo := 0, 0; lo < c.d; k, lo = k+1, lo+c.bucket {
		m := formatF32.get(p, k)
		for i, v := range c.table.values {
			values[i] = float32(scale * float32(m*v))
			values[i+128] = -values[i]
		}
		hi := min(lo+c.bucket, c.d)
		codec.AddEightBit(dst[lo:hi], codes[lo:hi], &values)
	}
	return nil
}
