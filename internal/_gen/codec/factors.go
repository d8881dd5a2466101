package codec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Products with matrices of so few columns that memory is all they wait for.
func factors() {
	for columns := 1; columns <= 4; columns++ {
		open := func(name, signature, by string) {
			name = fmt.Sprintf("%s%d", name, columns)
			kernel.First(name+"AVX2", "func"+signature, by, 8,
				fmt.Sprintf("%sAVX2 is %sGo for %d columns.", name, name[:len(name)-1], columns))
		}
		// vectors are the addresses of the columns of q.
		vectors := func(stride Register) []Register {
			p := []Register{base("q")}
			for c := 1; c < columns; c++ {
				next := GP64()
				LEAQ(Mem{Base: p[c-1], Index: stride, Scale: 4}, next)
				p = append(p, next)
			}
			return p
		}

		open("dots", "(s *[64]float32, m, m2, q []float32, stride int)", "m")
		s, n := word("s"), length("m")
		m := []Register{base("m"), base("m2")}
		q := vectors(word("stride"))
		var acc [2][]VecVirtual
		for row := range acc {
			for c := range columns {
				acc[row] = append(acc[row], op1(VMOVUPS, Mem{Base: s, Disp: 128*row + 32*c}))
			}
		}
		each(n, 8, func(i Register) {
			v := []VecVirtual{op1(VMOVUPS, at(m[0], i, 4, 0)), op1(VMOVUPS, at(m[1], i, 4, 0))}
			for c := range columns {
				y := op1(VMOVUPS, at(q[c], i, 4, 0))
				for row, a := range acc {
					VADDPS(op2(VMULPS, v[row], y), a[c], a[c])
				}
			}
		})
		for row := range acc {
			for c, a := range acc[row] {
				VMOVUPS(a, Mem{Base: s, Disp: 128*row + 32*c})
			}
		}
		end()

		open("spread", "(q []float32, stride int, m, m2 []float32, a *[8]float32)", "m")
		n = length("m")
		first, second, a := base("m"), base("m2"), word("a")
		q = vectors(word("stride"))
		var by [2][]VecVirtual
		for row := range by {
			for c := range columns {
				by[row] = append(by[row], op1(VBROADCASTSS, Mem{Base: a, Disp: 16*row + 4*c}))
			}
		}
		each(n, 8, func(i Register) {
			v, v2 := op1(VMOVUPS, at(first, i, 4, 0)), op1(VMOVUPS, at(second, i, 4, 0))
			for c := range columns {
				sum := op2(VADDPS, op2(VMULPS, v, by[0][c]), at(q[c], i, 4, 0))
				VADDPS(op2(VMULPS, v2, by[1][c]), sum, sum)
				VMOVUPS(sum, at(q[c], i, 4, 0))
			}
		})
		end()

		open("combine", "(dst []float32, scale float32, q []float32, stride int, a *[4]float32)", "dst")
		dst, n := base("dst"), length("dst")
		scale, a := single("scale"), word("a")
		q = vectors(word("stride"))
		var factor []VecVirtual
		for c := range columns {
			factor = append(factor, op1(VBROADCASTSS, Mem{Base: a, Disp: 4 * c}))
		}
		each(n, 8, func(i Register) {
			sum := op2(VMULPS, factor[0], at(q[0], i, 4, 0))
			for c := 1; c < columns; c++ {
				VADDPS(op2(VMULPS, factor[c], at(q[c], i, 4, 0)), sum, sum)
			}
			VMULPS(scale, sum, sum)
			VADDPS(at(dst, i, 4, 0), sum, sum)
			VMOVUPS(sum, at(dst, i, 4, 0))
		})
		end()
	}
}
