package codec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wholeNumbers writes the kernels of whole numbers in one or two bytes.
func wholeNumbers() {
	for _, w := range []struct {
		size  int
		widen any
	}{{1, VPMOVSXBD}, {2, VPMOVSXWD}} {
		begin(fmt.Sprintf("put%d", 8*w.size), "(dst []byte, x []float32)", "x", 32)
		dst, x, n := base("dst"), base("x"), length("x")
		each(n, 32, func(i Register) {
			var g [4]VecVirtual
			for u := range g {
				g[u] = op1(VCVTTPS2DQ, at(x, i, 4, 8*u))
				if w.size == 2 && u&1 == 1 {
					VPACKSSDW(g[u], g[u-1], g[u-1])
					VPERMQ(Imm(0xd8), g[u-1], g[u-1])
					VMOVDQU(g[u-1], at(dst, i, 2, 8*(u-1)))
				}
			}
			if w.size == 1 {
				VPACKSSDW(g[1], g[0], g[0])
				VPACKSSDW(g[3], g[2], g[2])
				VPACKSSWB(g[2], g[0], g[0])
				VPERMD(g[0], inOrder(), g[0])
				VMOVDQU(g[0], at(dst, i, 1, 0))
			}
		})
		end()

		for _, name := range []string{"set", "add"} {
			begin(fmt.Sprintf("%s%d", name, 8*w.size), "(x []float32, src []byte)", "x", 8)
			x, src, n := base("x"), base("src"), length("x")
			each(n, 8, func(i Register) {
				v := op1(VCVTDQ2PS, op1(w.widen.(func(...Op)), at(src, i, w.size, 0)))
				if name == "add" {
					VADDPS(at(x, i, 4, 0), v, v)
				}
				VMOVUPS(v, at(x, i, 4, 0))
			})
			end()
		}
	}
}
