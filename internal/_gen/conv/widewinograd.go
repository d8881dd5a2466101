package conv

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// The transforms by AVX-512. With 32 registers nothing is put aside between columns and
// rows; and the pixels of a tile of an image are found from a corner, by rows and masks of
// columns, where others read a table of pointers.

func every(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// wideTransforms writes all but those of gradients of weights, which are few.
func wideTransforms(c *constants) {
	// 36 values are too many at once. Row 5 follows on row 4 in memory.
	wideScatter("wideInput", "Bᵀ·d·B", 6, 6, c, inputs,
		part{innerInputs, []int{1, 2, 3, 4}, []int{1, 2, 3, 4}}, part{outerInputs, []int{5, 0}, every(6)})
	wideScatter("wideGradient", "A·d·Aᵀ", 4, 6, c, gradients, part{gradients, every(6), every(4)})
	wideScatter("wideGradient2", "A·d·Aᵀ", 2, 6, c, gradients2, part{gradients2, every(6), every(2)})
	wideGather("wideOutput", "Aᵀ·m·A", 6, 4, c, outputs)
	wideGather("wideOutput2", "Aᵀ·m·A", 6, 2, c, outputs2)
	wideWeights("wideWeights", 3, 6, c, weights, part{weights, every(6), every(3)})
	wideWeights("wideWeights5", 5, 6, c, weights5,
		part{firstWeights5, []int{0, 1, 2}, every(5)}, part{lastWeights5, []int{3, 4, 5}, every(5)})
}

// part of a line: some of what it makes, from some of its arguments.
type part struct {
	f           line
	makes, from []int
}

// square is the n×n pixels of a tile: pointers to rows, those outside of the image
// elsewhere, and for each column a mask, empty outside.
type square struct {
	rows  []Register
	cols  []Register
	steps [6]Register // some multiples of the step from pixel to pixel
}

// steps are those that pixels of a row of n need beside what an address multiplies by.
func steps(n int) (s [6]Register) {
	if n > 1 {
		s[1] = Load(Param("pixel"), GP64())
		SHLQ(Imm(2), s[1])
	}
	if n > 3 {
		s[3] = GP64()
		LEAQ(Mem{Base: s[1], Index: s[1], Scale: 2}, s[3])
	}
	if n > 5 {
		s[5] = GP64()
		LEAQ(Mem{Base: s[1], Index: s[1], Scale: 4}, s[5])
	}
	return s
}

// pixel (i, j) of the square.
func (q square) at(i, j int) Mem {
	switch j {
	case 0:
		return Mem{Base: q.rows[i]}
	case 2, 4:
		return Mem{Base: q.rows[i], Index: q.steps[1], Scale: uint8(j)}
	}
	return Mem{Base: q.rows[i], Index: q.steps[j], Scale: 1}
}

// next goes on to the next channels.
func (q square) next(bytes int) {
	for _, r := range q.rows {
		ADDQ(Imm(uint64(bytes)), r)
	}
}

// corner finds the square of the tile that parameter corners is at, in the image at a
// parameter, and goes on to the next tile. Rows outside are at parameter other.
func corner(n int, image, other string, q *square) {
	at := kernel.Address("corners")
	p, base, line := GP64(), GP64(), GP64()
	rows, cols, elsewhere := GP32(), GP32(), GP64()
	MOVQ(at, p)
	MOVLQSX(Mem{Base: p}, base)
	MOVWLZX(Mem{Base: p, Disp: 4}, rows)
	MOVWLZX(Mem{Base: p, Disp: 6}, cols)
	ADDQ(Imm(8), at)
	q.cols = nil
	for j := range n {
		mask, k := GP32(), K()
		BTL(Imm(uint64(j)), cols)
		SBBL(mask, mask) // ones if that bit is set
		KMOVW(mask, k)
		q.cols = append(q.cols, k)
	}
	MOVQ(kernel.Address("line"), line)
	SHLQ(Imm(2), line)
	SHLQ(Imm(2), base)
	ADDQ(kernel.Address(image), base)
	MOVQ(kernel.Address(other), elsewhere)
	q.rows = nil
	for i := range n {
		r := GP64()
		MOVQ(base, r)
		BTL(Imm(uint64(i)), rows)
		CMOVQCC(elsewhere, r)
		if i < n-1 {
			ADDQ(line, base)
		}
		q.rows = append(q.rows, r)
	}
}

// nextTile goes on at label tile with the planes of the next one, or ends.
func nextTile(planes string) {
	row := GP64()
	MOVQ(kernel.Address("row"), row)
	SHLQ(Imm(2), row)
	ADDQ(row, kernel.Address(planes))
	DECQ(kernel.Address("tiles"))
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// wideScatter writes a transform from pixels of an image to planes.
func wideScatter(name, what string, n, m int, c *constants, f line, parts ...part) {
	kernel.All(name, "func(tiles int, corners *int32, x, zero, v *float32, plane, row, pixel, line, vecs int)",
		fmt.Sprintf("%s writes %s of tiles of %d×%d pixels, 16·vecs channels each, to %d planes:", name, what, n, n, m*m),
		fmt.Sprintf("tile t to v[t*row + i*plane], i < %d. corners are a corner for each tile; pixels are pixel,", m*m),
		"rows of them line floats apart, and outside of the image they are 0, as zero is for pixels",
		"of a whole row of the tile. tiles and vecs must be positive.")
	q := square{steps: steps(n)}
	plane := Load(Param("plane"), GP64())
	SHLQ(Imm(2), plane)
	Label("tile")
	corner(n, "x", "zero", &q)
	out, vecs := GP64(), GP64()
	MOVQ(kernel.Address("v"), out)
	MOVQ(kernel.Address("vecs"), vecs)
	Label("vec")
	toPlanes(n, m, c, f, parts, plane, out, func(i, j int) VecVirtual {
		x := vec()
		VMOVUPS_Z(q.at(i, j), q.cols[j], x)
		return x
	})
	q.next(64)
	ADDQ(Imm(64), out)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	nextTile("v")
}

// toPlanes applies a line to the columns of an n×n matrix, part by part, and to the rows
// of what comes out, and stores m×m planes from out on.
func toPlanes(n, m int, c *constants, f line, parts []part, plane, out Register, load func(i, j int) VecVirtual) {
	to := GP64()
	at := -1 // plane that to points to
	for _, p := range parts {
		half := map[int][]VecVirtual{}
		for j := range n {
			x := make([]VecVirtual, n)
			for _, i := range p.from {
				x[i] = load(i, j)
			}
			for r, y := range p.f(c, x) {
				half[p.makes[r]] = append(half[p.makes[r]], y)
			}
		}
		for _, i := range p.makes {
			switch {
			case at == i*m:
			case i == 0:
				MOVQ(out, to)
			default:
				IMUL3Q(Imm(uint64(i*m)), plane, to)
				ADDQ(out, to)
			}
			at = i * m
			for _, y := range f(c, half[i]) {
				VMOVUPS(y, Mem{Base: to})
				ADDQ(plane, to)
				at++
			}
		}
	}
}

// wideWeights writes a transform from taps of weights to planes.
func wideWeights(name string, n, m int, c *constants, f line, parts ...part) {
	kernel.All(name, "func(offs *int32, w, v *float32, plane, step, vecs int)",
		fmt.Sprintf("%s writes G·d·Gᵀ of %d×%d taps, vecs times 16 weights each, to %d planes: those of", name, n, n, m*m),
		"tap k at w[offs[k] + step*j] to v[16*j + i*plane], j < vecs. vecs must be positive.")
	offs, w := Load(Param("offs"), GP64()), Load(Param("w"), GP64())
	table := AllocLocal(8 * n * n)
	for k := range n * n {
		p := GP64()
		MOVLQSX(Mem{Base: offs, Disp: 4 * k}, p)
		LEAQ(Mem{Base: w, Index: p, Scale: 4}, p)
		MOVQ(p, table.Offset(8*k))
	}
	plane, step := Load(Param("plane"), GP64()), Load(Param("step"), GP64())
	SHLQ(Imm(2), plane)
	SHLQ(Imm(2), step)
	out, vecs, off := Load(Param("v"), GP64()), Load(Param("vecs"), GP64()), GP64()
	XORQ(off, off)
	Label("vec")
	toPlanes(n, m, c, f, parts, plane, out, func(i, j int) VecVirtual {
		p, x := GP64(), vec()
		MOVQ(table.Offset(8*(i*n+j)), p)
		VMOVUPS(Mem{Base: p, Index: off, Scale: 1}, x)
		return x
	})
	ADDQ(step, off)
	ADDQ(Imm(64), out)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	VZEROUPPER()
	RET()
}

// wideGather writes a transform from planes to pixels of an image.
func wideGather(name, what string, n, m int, c *constants, f line) {
	kernel.All(name, "func(tiles int, corners *int32, y, sink, m *float32, plane, row, pixel, line, vecs int, bias *float32, relu bool)",
		fmt.Sprintf("%s writes %s of tiles of %d×%d planes, 16·vecs channels each, to %d pixels. Tile t is at", name, what, n, n, m*m),
		fmt.Sprintf("m[t*row + i*plane], i < %d. corners are a corner for each tile; pixels are pixel, rows of", n*n),
		"them line floats apart. Those outside of the image are not written, but to sink, for pixels",
		"of a whole row of the tile. bias, unless nil, is added, and with relu what is ≤ 0 becomes 0.",
		"tiles and vecs must be positive.")
	q := square{steps: steps(m)}
	plane, down := Load(Param("plane"), GP64()), GP64() // down is from plane (i, j) to (i+1, j)
	SHLQ(Imm(2), plane)
	IMUL3Q(Imm(uint64(n)), plane, down)
	Label("tile")
	corner(m, "y", "sink", &q)
	src, bias := GP64(), GP64()
	MOVQ(kernel.Address("m"), src)
	MOVQ(kernel.Address("bias"), bias)
	vecs := GP64()
	MOVQ(kernel.Address("vecs"), vecs)
	Label("vec")
	col, p := GP64(), GP64()
	MOVQ(src, col)
	half := make([][]VecVirtual, m)
	for range n {
		x := make([]VecVirtual, n)
		MOVQ(col, p)
		for i := range n {
			x[i] = vec()
			VMOVUPS(Mem{Base: p}, x[i])
			if i < n-1 {
				ADDQ(down, p)
			}
		}
		ADDQ(plane, col)
		for i, y := range f(c, x) {
			half[i] = append(half[i], y)
		}
	}
	for i := range m {
		for j, y := range f(c, half[i]) {
			epilogue(c, fmt.Sprintf("%d%d", i, j), bias, Mem{Base: bias}, kernel.Address("relu"), y)
			VMOVUPS(y, q.cols[j], q.at(i, j))
		}
	}
	q.next(64)
	ADDQ(Imm(64), src)
	TESTQ(bias, bias)
	JZ(LabelRef("bare"))
	ADDQ(Imm(64), bias)
	Label("bare")
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	nextTile("m")
}
