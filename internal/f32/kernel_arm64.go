//go:build !noasm

package f32

import "github.com/gradlab/gradlab/internal/cpu"

func init() {
	families = append([][]*kernel{{neon}}, families...)
	cpu.Add("f32", cpu.Kernel{Name: "neon16x6"}, cpu.Kernel{Name: "neon16x4"}, cpu.Kernel{Name: "neon16x2"}, cpu.Kernel{Name: "neon16x1"})
}

// neon has 24 accumulators, 4 registers for B and up to 4 for A: all 32.
var neon = &kernel{name: "neon-6x16", rows: 6, cols: 16, heights: []int{6, 4, 2, 1}, run: runNEON, twin: microGo}

func runNEON(rows int, x *call) bool {
	if x.width == 16 && !x.flush {
		tilesNEON(rows, x)
		return true
	}
	// There are no masked stores: by way of a tile in scratch memory.
	var tile [6 * 16]float32
	one := *x
	one.tiles, one.c, one.cRow, one.add = 1, tile[:], 16, false
	for t := range x.tiles {
		one.a = x.a[t*x.aTile:]
		tilesNEON(rows, &one)
		if len(one.packed) > 0 {
			one.b, one.bStep, one.packed = one.packed, 16, nil
		}
		c := x.c[t*rows*x.cRow:]
		if one.tiny {
			// NEON takes to 0 what is below the least normal number before it is rounded,
			// others do so afterwards.
			again := one
			again.c, again.cRow, again.add = c, x.cRow, x.add
			microFlushedGo(16, rows, &again)
			continue
		}
		for i := range rows {
			row, sum := c[i*x.cRow:][:x.width], tile[i*16:]
			for j := range row {
				switch {
				case x.flush:
					x.store(row, j, sum[j])
				case x.add:
					row[j] += sum[j]
				default:
					row[j] = sum[j]
				}
			}
		}
	}
	return true
}

func tilesNEON(rows int, x *call) {
	switch rows {
	case 6:
		neon16x6(&x.k)
	case 4:
		neon16x4(&x.k)
	case 2:
		neon16x2(&x.k)
	case 1:
		neon16x1(&x.k)
	}
}

// neon16x6 is microGo for tiles of 6×16. Its argument
// points to the first field of a call.
//
//go:noescape
func neon16x6(call *int)

// neon16x4 is neon16x6 for tiles of 4×16.
//
//go:noescape
func neon16x4(call *int)

// neon16x2 is neon16x6 for tiles of 2×16.
//
//go:noescape
func neon16x2(call *int)

// neon16x1 is neon16x6 for tiles of 1×16.
//
//go:noescape
func neon16x1(call *int)
