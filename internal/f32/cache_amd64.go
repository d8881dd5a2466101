//go:build !noasm

package f32

func init() {
	if sets := setsOfL2(cpuid); sets > 0 && sets&(sets-1) == 0 {
		l2Sets = sets
	}
}

// setsOfL2 is the number of sets of the second cache by what CPUID says, or 0: Intel has
// the caches in leaf 4, AMD in leaf 8000001D, one a subleaf.
func setsOfL2(cpuid func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)) int {
	for _, leaf := range [2]uint32{4, 0x8000001d} {
		if most, _, _, _ := cpuid(leaf&0x80000000, 0); leaf > most {
			continue
		}
		for sub := uint32(0); sub < 16; sub++ {
			about, ways, sets, _ := cpuid(leaf, sub)
			kind, level := about&31, about>>5&7
			if kind == 0 {
				break // the last one
			}
			// Data or unified, with lines of 64 bytes, which is what the kernels count in.
			if kind != 2 && level == 2 && ways&0xfff == 63 {
				return int(sets) + 1
			}
		}
	}
	return 0
}
