//go:build !noasm

package f32

import "encoding/binary"

// flushesEarly says whether this is qemu, which takes to 0 what is below the least normal
// number before it is rounded, where processors do so afterwards.
func flushesEarly() bool {
	_, b, c, d := cpuid(0x40000000, 0)
	var name [12]byte
	for i, r := range [3]uint32{b, c, d} {
		binary.LittleEndian.PutUint32(name[4*i:], r)
	}
	return string(name[:]) == "TCGTCGTCGTCG"
}
