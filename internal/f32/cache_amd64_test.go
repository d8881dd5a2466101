//go:build !noasm

package f32

import "testing"

// Second caches as processors describe them.
func TestSetsOfL2(t *testing.T) {
	type answer = [4]uint32
	for _, c := range []struct {
		name string
		says map[[2]uint32]answer
		want int
	}{
		{"Sapphire Rapids, 2 MiB in 16 ways", map[[2]uint32]answer{
			{0, 0}: {0x20}, {4, 0}: {0x21, 11<<22 | 63, 63}, {4, 1}: {0x22, 7<<22 | 63, 63}, {4, 2}: {0x43, 15<<22 | 63, 2047},
		}, 2048},
		{"Zen 3, 512 KiB in 8 ways", map[[2]uint32]answer{
			{0, 0}: {0x10}, {0x80000000, 0}: {0x80000023},
			{0x8000001d, 0}: {0x21, 7<<22 | 63, 63}, {0x8000001d, 1}: {0x22, 7<<22 | 63, 63}, {0x8000001d, 2}: {0x43, 7<<22 | 63, 1023},
		}, 1024},
		{"one that says nothing", map[[2]uint32]answer{{0, 0}: {1}}, 0},
	} {
		got := setsOfL2(func(leaf, sub uint32) (a, b, c1, d uint32) {
			x := c.says[[2]uint32{leaf, sub}]
			return x[0], x[1], x[2], x[3]
		})
		if got != c.want {
			t.Errorf("%s: %d sets, want %d", c.name, got, c.want)
		}
	}
	t.Logf("this machine: %d sets", setsOfL2(cpuid))
}
