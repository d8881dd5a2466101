// Command gen writes the AVX2 and AVX-512 assembly of package conv. From this folder:
//
//	go run . -out ../../conv/kernel_amd64.s -stubs ../../conv/kernel_stubs_amd64.go -pkg conv
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for _, strided := range []bool{false, true} {
		for _, rows := range []int{6, 4} {
			tiles(rows, strided)
		}
	}
	for _, rows := range []int{6, 4} {
		for panels := range 4 {
			wide(rows, panels+1)
		}
	}
	wide(12, 1)
	copies()
	interleave16()
	winograd()
	Generate()
}
