package cpu

import "golang.org/x/sys/cpu"

func detected() (f Features) {
	x := &cpu.X86
	for i, has := range [len(names)]bool{x.HasAVX, x.HasAVX2, x.HasFMA, x.HasF16C, x.HasBMI2, x.HasPOPCNT,
		x.HasAVX512F, x.HasAVX512BW, x.HasAVX512DQ, x.HasAVX512VL, x.HasAVX512BF16} {
		if has {
			f |= 1 << i
		}
	}
	return f
}
