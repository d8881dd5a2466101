// Package gemm opens the kernels of the matrix product of package f32, and of what packs
// its panels.
package gemm

// Kernels opens all of them.
func Kernels() {
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
}
