// Command gemm writes the amd64 assembly of the matrix product of package f32:
// its micro-kernels and what packs their panels. From this folder:
//
//	go run . -out ../../f32/kernel_amd64.s -stubs ../../f32/kernel_stubs_amd64.go -pkg f32
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for _, t := range tiles {
		for _, rows := range t.heights {
			t.micro(rows)
		}
	}
	transpose8()
	cpuid()
	pairsAlong()
	pairsAcross()
	for _, width := range []int{4, 6, 8, 10, 12, 16} {
		copyRuns(width)
	}
	Generate()
}
