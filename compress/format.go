package compress

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
)

// format is how single values travel: four bytes, or two with saturation.
type format struct {
	name    string
	wire    Wire
	size    int     // bytes a value
	largest float32 // finite value; beyond it values saturate
	halfway uint32  // magnitude bits from which rounding would overflow
	unit    float64 // relative error of rounding to nearest: |x̂−x| ≤ unit·|x|
	to      func(float32) uint16
	from    func(uint16) float32
	encode  func([]byte, []float32)
	add     func([]float32, float32, []byte)
	round   func([]float32)
}

var (
	formatF32 = format{name: "f32", wire: F32, size: 4, largest: math.MaxFloat32}
	// bfloat16 has 8 significant bits, so the unit roundoff is 2⁻⁸.
	formatBF16 = format{
		name: "bf16", wire: BF16, size: 2, largest: 0x1.fep127, halfway: 0x7f7f8000, unit: 0x1p-8,
		to: f32.ToBF16, from: f32.FromBF16, encode: f32.EncodeBF16, add: f32.AddBF16, round: f32.RoundBF16,
	}
	formatFP16 = format{
		name: "fp16", wire: F16, size: 2, largest: 65504, halfway: 0x477ff000, unit: 0x1p-11,
		to: f32.ToFP16, from: f32.FromFP16, encode: f32.EncodeFP16, add: f32.AddFP16, round: f32.RoundFP16,
	}
	formats = []*format{&formatF32, &formatBF16, &formatFP16}
)

// formatOf finds a format by name, "" being f32.
func formatOf(name string) *format {
	name = word(name, "f32")
	for _, f := range formats {
		if f.name == name {
			return f
		}
	}
	return nil
}

const magnitude = 1<<31 - 1 // the bits of a float32 without its sign

// saturate replaces finite values that would round to infinity by the largest
// finite value of the same sign.
func (f *format) saturate(v float32) float32 {
	if f.size == 2 && math.Float32bits(v)&magnitude >= f.halfway {
		return float32(math.Copysign(float64(f.largest), float64(v)))
	}
	return v
}

// overflows reports whether a vector whose largest magnitude is m has values
// that must be saturated.
func (f *format) overflows(m float32) bool {
	return f.size == 2 && math.Float32bits(m) >= f.halfway
}

// append adds x to dst in this format. m is x's largest magnitude.
func (f *format) append(dst []byte, x []float32, m float32) []byte {
	if f.size == 4 {
		return f32.AppendBytes(dst, x)
	}
	at := len(dst)
	dst = slices.Grow(dst, 2*len(x))[:at+2*len(x)]
	if !f.overflows(m) {
		f.encode(dst[at:], x)
		return dst
	}
	for i, v := range x {
		binary.LittleEndian.PutUint16(dst[at+2*i:], f.to(f.saturate(v)))
	}
	return dst
}

// put appends one value.
func (f *format) put(dst []byte, v float32) []byte {
	if f.size == 4 {
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return binary.LittleEndian.AppendUint16(dst, f.to(f.saturate(v)))
}

// addTo adds scale times the values in p to dst.
func (f *format) addTo(dst []float32, scale float32, p []byte) {
	if f.size == 4 {
		f32.AddBytes(dst, scale, p)
		return
	}
	f.add(dst, scale, p)
}

// get reads value i of p.
func (f *format) get(p []byte, i int) float32 {
	if f.size == 4 {
		return math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return f.from(binary.LittleEndian.Uint16(p[2*i:]))
}

// read fills dst from values as append writes them. A switch, where a function
// in f would make callers allocate what they read into.
func (f *format) read(dst []float32, p []byte) {
	switch f.wire {
	case BF16:
		f32.DecodeBF16(dst, p)
	case F16:
		f32.DecodeFP16(dst, p)
	default:
		f32.FromBytes(dst, p)
	}
}

// finite reports whether all values in p are.
func (f *format) finite(p []byte) bool {
	switch f.wire {
	case BF16:
		return f32.AllFiniteBF16(p)
	case F16:
		return f32.AllFiniteFP16(p)
	}
	return f32.AllFiniteBytes(p)
}

// AllFinite reports whether all float32 in p, little-endian, are finite: what a
// decoder asks of values it did not make.
func AllFinite(p []byte) bool { return formatF32.finite(p) }
