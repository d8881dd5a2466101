package conv

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Winograd's F(4×4, 3×3) and F(2×2, 5×5) with the points 0, ±a, ±b and infinity: see
// winograd.go of package conv.
const a, b = 0.625, 1.5

const (
	a2, b2 = a * a, b * b
	n0     = a2 * b2            // Π (0 − q)
	na     = 2 * a2 * (a2 - b2) // Π (±a − q)
	nb     = 2 * b2 * (b2 - a2) // Π (±b − q)
	sum    = a2 + b2
)

// constants holds constants by value: for all lanes of a vector of eight, and once for one
// of sixteen, which instructions spread. (A table of whole vectors would have to lie at
// multiples of 64 bytes, which the linker does not promise.)
type constants struct {
	table Mem
	lanes int
	at    map[float32]int
}

func (c *constants) get(x float64) Mem {
	v := float32(x)
	if _, ok := c.at[v]; !ok {
		copies := c.lanes
		if copies == 16 {
			copies = 1
		}
		c.at[v] = 4 * copies * len(c.at)
		for i := range copies {
			DATA(c.at[v]+4*i, F32(v))
		}
	}
	return c.table.Offset(c.at[v])
}

// vec is a new register of the set that is being written, YMM or ZMM.
var vec func() VecVirtual

// A line is a transform of one dimension: it emits the code that takes
// registers to others, and may spoil what it is given.
type line func(c *constants, x []VecVirtual) []VecVirtual

func copyOf(x VecVirtual) VecVirtual {
	y := vec()
	VMOVAPS(x, y)
	return y
}

// plus emits x += k·y, minus x −= k·y; both return x.
func plus(x VecVirtual, k Mem, y VecVirtual) VecVirtual {
	by(VFMADD231PS, VFMADD231PS_BCST, k, y, x)
	return x
}

func minus(x VecVirtual, k Mem, y VecVirtual) VecVirtual {
	by(VFNMADD231PS, VFNMADD231PS_BCST, k, y, x)
	return x
}

func times(k Mem, y VecVirtual) VecVirtual {
	x := vec()
	by(VMULPS, VMULPS_BCST, k, y, x)
	return x
}

func add(x, y VecVirtual) VecVirtual { z := vec(); VADDPS(y, x, z); return z }
func sub(x, y VecVirtual) VecVirtual { z := vec(); VSUBPS(y, x, z); return z }

// by emits an instruction with a constant: plain, or the one that spreads it.
func by(plain, spreads func(...Op), k Mem, y, x VecVirtual) {
	if x.Size() == 64 {
		spreads(k, y, x)
		return
	}
	plain(k, y, x)
}

// pair is e + k·o and e − k·o.
func pair(e VecVirtual, k Mem, o VecVirtual) (VecVirtual, VecVirtual) {
	return plus(copyOf(e), k, o), minus(e, k, o)
}

// inputs is Bᵀ, 6 → 6.
func inputs(c *constants, d []VecVirtual) []VecVirtual {
	outer := outerInputs(c, []VecVirtual{d[0], d[1], d[2], d[3], copyOf(d[4]), d[5]})
	return append(append(outer[1:], innerInputs(c, d)...), outer[0])
}

// innerInputs are rows 1 to 4 of inputs, which do not look at its first and last.
func innerInputs(c *constants, d []VecVirtual) []VecVirtual {
	r1, r2 := pair(minus(copyOf(d[4]), c.get(b2), d[2]), c.get(a), minus(copyOf(d[3]), c.get(b2), d[1]))
	r3, r4 := pair(minus(d[4], c.get(a2), d[2]), c.get(b), minus(d[3], c.get(a2), d[1]))
	return []VecVirtual{r1, r2, r3, r4}
}

// outerInputs are rows 5 and 0 of inputs, in this order.
func outerInputs(c *constants, d []VecVirtual) []VecVirtual {
	r0 := plus(minus(d[4], c.get(sum), d[2]), c.get(n0), d[0])
	r5 := plus(minus(d[5], c.get(sum), d[3]), c.get(n0), d[1])
	return []VecVirtual{r5, r0}
}

// sums are those of both points a and −a, b and −b, and their differences.
func sums(m []VecVirtual) (u, v, w, z VecVirtual) {
	u, v = add(m[1], m[2]), sub(m[1], m[2])
	w, z = add(m[3], m[4]), sub(m[3], m[4])
	return u, v, w, z
}

// outputs is Aᵀ, 6 → 4.
func outputs(c *constants, m []VecVirtual) []VecVirtual {
	u, v, w, z := sums(m)
	y0 := add(add(m[0], u), w)
	y1 := plus(times(c.get(a), v), c.get(b), z)
	y2 := plus(times(c.get(a2), u), c.get(b2), w)
	y3 := plus(plus(m[5], c.get(a2*a), v), c.get(b2*b), z)
	return []VecVirtual{y0, y1, y2, y3}
}

// weights is G, 3 → 6.
func weights(c *constants, g []VecVirtual) []VecVirtual {
	r1, r2 := pair(plus(times(c.get(1/na), g[0]), c.get(a2/na), g[2]), c.get(a/na), g[1])
	r3, r4 := pair(plus(times(c.get(1/nb), g[0]), c.get(b2/nb), g[2]), c.get(b/nb), g[1])
	return []VecVirtual{times(c.get(1/n0), g[0]), r1, r2, r3, r4, g[2]}
}

// gradients is A, 4 → 6.
func gradients(c *constants, y []VecVirtual) []VecVirtual {
	r1, r2 := pair(plus(copyOf(y[0]), c.get(a2), y[2]), c.get(a), plus(copyOf(y[1]), c.get(a2), y[3]))
	r3, r4 := pair(plus(copyOf(y[0]), c.get(b2), y[2]), c.get(b), plus(y[1], c.get(b2), y[3]))
	return []VecVirtual{y[0], r1, r2, r3, r4, y[3]}
}

// slopes is Gᵀ, 6 → 3.
func slopes(c *constants, m []VecVirtual) []VecVirtual {
	u, v, w, z := sums(m)
	w0 := plus(plus(times(c.get(1/n0), m[0]), c.get(1/na), u), c.get(1/nb), w)
	w1 := plus(times(c.get(a/na), v), c.get(b/nb), z)
	w2 := plus(plus(m[5], c.get(a2/na), u), c.get(b2/nb), w)
	return []VecVirtual{w0, w1, w2}
}

// outputs2 is Aᵀ, 6 → 2.
func outputs2(c *constants, m []VecVirtual) []VecVirtual {
	u, v, w, z := sums(m)
	return []VecVirtual{add(add(m[0], u), w), plus(plus(m[5], c.get(a), v), c.get(b), z)}
}

// weights5 is G, 5 → 6.
func weights5(c *constants, g []VecVirtual) []VecVirtual {
	return append(firstWeights5(c, g), lastWeights5(c, g)...)
}

// firstWeights5 are rows 0, 1 and 2 of weights5, lastWeights5 the others.
func firstWeights5(c *constants, g []VecVirtual) []VecVirtual {
	e, o := halves(c, a, na, g)
	return []VecVirtual{times(c.get(1/n0), g[0]), add(e, o), sub(e, o)}
}

func lastWeights5(c *constants, g []VecVirtual) []VecVirtual {
	f, p := halves(c, b, nb, g)
	return []VecVirtual{add(f, p), sub(f, p), g[4]}
}

// halves are the even and the odd terms of five at point p, over n.
func halves(c *constants, p, n float64, g []VecVirtual) (even, odd VecVirtual) {
	even = plus(plus(times(c.get(1/n), g[0]), c.get(p*p/n), g[2]), c.get(p*p*p*p/n), g[4])
	return even, plus(times(c.get(p/n), g[1]), c.get(p*p*p/n), g[3])
}

// gradients2 is A, 2 → 6.
func gradients2(c *constants, y []VecVirtual) []VecVirtual {
	r1, r2 := pair(copyOf(y[0]), c.get(a), y[1])
	r3, r4 := pair(copyOf(y[0]), c.get(b), y[1])
	return []VecVirtual{y[0], r1, r2, r3, r4, y[1]}
}

// slopes5 is Gᵀ, 6 → 5.
func slopes5(c *constants, m []VecVirtual) []VecVirtual {
	u, v, w, z := sums(m)
	w0 := plus(plus(times(c.get(1/n0), m[0]), c.get(1/na), u), c.get(1/nb), w)
	w1 := plus(times(c.get(a/na), v), c.get(b/nb), z)
	w2 := plus(times(c.get(a2/na), u), c.get(b2/nb), w)
	w3 := plus(times(c.get(a2*a/na), v), c.get(b2*b/nb), z)
	w4 := plus(plus(m[5], c.get(a2*a2/na), u), c.get(b2*b2/nb), w)
	return []VecVirtual{w0, w1, w2, w3, w4}
}

// winograd writes the transforms of both dimensions, eight or sixteen channels at a
// time.
func winograd() {
	vec = func() VecVirtual { return YMM() }
	c := &constants{table: GLOBL("winogradConstants", RODATA|NOPTR), lanes: 8, at: map[float32]int{}}
	narrowTransforms(c)
	vec = func() VecVirtual { return ZMM() }
	c = &constants{table: GLOBL("wideConstants", RODATA|NOPTR), lanes: 16, at: map[float32]int{}}
	gather("wideSlope", "Gᵀ·m·G", 6, 3, false, c, slopes)
	gather("wideSlope5", "Gᵀ·m·G", 6, 5, false, c, slopes5)
	wideTransforms(c)
}

// narrowTransforms writes them for eight channels.
func narrowTransforms(c *constants) {
	scatter("winogradInput", "Bᵀ·d·B", 6, 6, c, inputs)
	scatter("winogradWeights", "G·d·Gᵀ", 3, 6, c, weights)
	gather("winogradOutput", "Aᵀ·m·A", 6, 4, true, c, outputs)
	scatter("winogradGradient", "A·d·Aᵀ", 4, 6, c, gradients)
	gather("winogradSlope", "Gᵀ·m·G", 6, 3, false, c, slopes)
	scatter("winogradWeights5", "G·d·Gᵀ", 5, 6, c, weights5)
	gather("winogradOutput2", "Aᵀ·m·A", 6, 2, true, c, outputs2)
	scatter("winogradGradient2", "A·d·Aᵀ", 2, 6, c, gradients2)
	gather("winogradSlope5", "Gᵀ·m·G", 6, 5, false, c, slopes5)
}

// pointers fills a table on the stack with base + 4·offset, or other where the
// offset is negative.
func pointers(n int, offs, base, other Register) Mem {
	table := AllocLocal(8 * n)
	for i := range n {
		p, q := GP64(), GP64()
		MOVLQSX(Mem{Base: offs, Disp: 4 * i}, p)
		LEAQ(Mem{Base: base, Index: p, Scale: 4}, q)
		TESTQ(p, p)
		CMOVQLT(other, q)
		MOVQ(q, table.Offset(8*i))
	}
	return table
}

// twice applies a line to the columns of an n×n matrix and then to the rows of
// what comes out, by way of scratch.
func twice(n int, c *constants, f line, scratch Register, load func(i, j int) VecVirtual, store func(i, j int, v VecVirtual)) {
	size := 4 * c.lanes
	m := 0
	for j := range n {
		x := make([]VecVirtual, n)
		for i := range x {
			x[i] = load(i, j)
		}
		for i, v := range f(c, x) {
			VMOVUPS(v, Mem{Base: scratch, Disp: size * (i*n + j)})
			m = i + 1
		}
	}
	for i := range m {
		x := make([]VecVirtual, n)
		for j := range x {
			x[j] = vec()
			VMOVUPS(Mem{Base: scratch, Disp: size * (i*n + j)}, x[j])
		}
		for j, v := range f(c, x) {
			store(i, j, v)
		}
	}
}

// scatter writes a transform from places in an image to planes.
func scatter(name, what string, n, m int, c *constants, f line) {
	kernel.All(name, "func(tiles int, offs *int32, x, zero, v *float32, plane, row, vecs int, scratch *float32)",
		fmt.Sprintf("%s writes %s of tiles of %d×%d pixels, %d·vecs channels each, to %d planes:", name, what, n, n, c.lanes, m*m),
		fmt.Sprintf("tile t to v[t*row + i*plane], i < %d. Its pixels are at x[offs[%d*t+k]], or at zero", m*m, n*n),
		fmt.Sprintf("where that is negative. scratch has room for %d floats. tiles and vecs must be positive.", 36*c.lanes))
	offs, x, zero := Load(Param("offs"), GP64()), Load(Param("x"), GP64()), Load(Param("zero"), GP64())
	scratch := Load(Param("scratch"), GP64())
	plane := Load(Param("plane"), GP64())
	SHLQ(Imm(2), plane)
	v := Load(Param("v"), GP64())
	tiles := Load(Param("tiles"), GP64())
	Label("tile")
	table := pointers(n*n, offs, x, zero)
	off, vecs, out := GP64(), GP64(), GP64()
	XORQ(off, off)
	Load(Param("vecs"), vecs)
	Label("vec")
	LEAQ(Mem{Base: v, Index: off, Scale: 1}, out)
	twice(n, c, f, scratch, func(i, j int) VecVirtual {
		p, r := GP64(), vec()
		MOVQ(table.Offset(8*(i*n+j)), p)
		VMOVUPS(Mem{Base: p, Index: off, Scale: 1}, r)
		return r
	}, func(i, j int, r VecVirtual) {
		VMOVUPS(r, Mem{Base: out})
		ADDQ(plane, out)
	})
	ADDQ(Imm(uint64(4*c.lanes)), off)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	ADDQ(U32(4*n*n), offs)
	row := Load(Param("row"), GP64())
	LEAQ(Mem{Base: v, Index: row, Scale: 4}, v)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// gather writes a transform from planes to places in an image.
func gather(name, what string, n, m int, biased bool, c *constants, f line) {
	more, doc := "", ""
	if biased {
		more, doc = ", bias *float32, relu bool", " bias, unless nil, is added, and with relu what is ≤ 0 becomes 0."
	}
	kernel.All(name, "func(tiles int, offs *int32, y, sink, m *float32, plane, row, vecs int, scratch *float32"+more+")",
		fmt.Sprintf("%s writes %s of tiles of %d×%d planes, %d·vecs channels each, to %d pixels:", name, what, n, n, c.lanes, m*m),
		fmt.Sprintf("pixel k of tile t to y[offs[%d*t+k]], or to sink where that is negative. Tile t is at", m*m),
		fmt.Sprintf("m[t*row + i*plane], i < %d. scratch has room for %d floats. tiles and vecs must be", n*n, 36*c.lanes),
		"positive."+doc)
	offs, y, sink := Load(Param("offs"), GP64()), Load(Param("y"), GP64()), Load(Param("sink"), GP64())
	scratch := Load(Param("scratch"), GP64())
	plane := Load(Param("plane"), GP64())
	SHLQ(Imm(2), plane)
	down := GP64() // from plane (i, j) to (i+1, j)
	IMUL3Q(Imm(uint64(n)), plane, down)
	src := Load(Param("m"), GP64())
	tiles := Load(Param("tiles"), GP64())
	Label("tile")
	table := pointers(m*m, offs, y, sink)
	off, vecs := GP64(), GP64()
	XORQ(off, off)
	Load(Param("vecs"), vecs)
	Label("vec")
	col, p := GP64(), GP64()
	LEAQ(Mem{Base: src, Index: off, Scale: 1}, col)
	twice(n, c, f, scratch, func(i, j int) VecVirtual {
		if i > 0 {
			ADDQ(down, p)
		} else {
			if j > 0 {
				ADDQ(plane, col)
			}
			MOVQ(col, p)
		}
		r := vec()
		VMOVUPS(Mem{Base: p}, r)
		return r
	}, func(i, j int, r VecVirtual) {
		if biased {
			bias, relu := Load(Param("bias"), GP64()), Load(Param("relu"), GP8())
			epilogue(c, fmt.Sprintf("%d%d", i, j), bias, Mem{Base: bias, Index: off, Scale: 1}, relu, r)
		}
		p := GP64()
		MOVQ(table.Offset(8*(i*m+j)), p)
		VMOVUPS(r, Mem{Base: p, Index: off, Scale: 1})
	})
	ADDQ(Imm(uint64(4*c.lanes)), off)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	ADDQ(Imm(uint64(4*m*m)), offs)
	row := Load(Param("row"), GP64())
	LEAQ(Mem{Base: src, Index: row, Scale: 4}, src)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// epilogue adds the bias at a place, unless there is none, and rectifies if relu.
func epilogue(c *constants, label string, bias Register, at Mem, relu Op, r VecVirtual) {
	TESTQ(bias, bias)
	JZ(LabelRef("relu" + label))
	VADDPS(at, r, r)
	Label("relu" + label)
	CMPB(relu, Imm(0))
	JE(LabelRef("store" + label))
	rectify(c, r)
	Label("store" + label)
}

// rectify takes what is ≤ 0 to 0, and leaves NaN.
func rectify(c *constants, r VecVirtual) {
	if c.lanes == 16 {
		const notLessOrEqual = 6 // true for NaN
		k := K()
		VCMPPS_BCST(Imm(notLessOrEqual), c.get(0), r, k)
		VMOVAPS_Z(r, k, r)
		return
	}
	const lessOrEqual = 2 // false for NaN
	zero, mask := YMM(), YMM()
	VXORPS(zero, zero, zero)
	VCMPPS(Imm(lessOrEqual), zero, r, mask)
	VANDNPS(r, mask, r)
}
