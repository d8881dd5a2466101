package compresstest

import (
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// What an exchange asks for is known beforehand: two sums of rank·256 floats for
// factors of a square matrix, half a payload a step where every other is kept back.
func TestMeasureExchange(t *testing.T) {
	for spec, want := range map[string]string{
		"raw":                           "1 rounds, 262144 bytes: [a sum of 65536 f32]",
		"bf16":                          "1 rounds, 131072 bytes: [a sum of 65536 bf16]",
		"powersgd(rank=2)":              "2 rounds, 4096 bytes: [a sum of 512 f32 a sum of 512 f32]",
		"randomk(keep=0.5)":             "1 rounds, 131072 bytes: [a sum of 32768 f32]",
		"accumulate(sign,every=2)":      "1 rounds, 4098 bytes: [gathered parts of 8196 bytes]",
		"intsum(bits=4,bucket=0)":       "2 rounds, 65540 bytes: [a maximum of 1 f32 a sum of 65536 i8]",
		"topk(keep=0.25,index=raw32)":   "1 rounds, 131072 bytes: [gathered parts of 131072 bytes]",
		"scatter(sign(scale=none))":     "2 rounds, 8193 bytes: [5462 bytes of parts to their owners gathered parts of 2731 bytes]",
		"ef21(sign)":                    "1 rounds, 8196 bytes: [gathered parts of 8196 bytes]",
		"feedback(sign)":                "1 rounds, 8196 bytes: [gathered parts of 8196 bytes]",
		"bysize(sign,bf16,limit=70000)": "1 rounds, 131072 bytes: [a sum of 65536 bf16]",
	} {
		m, err := MeasureExchange(compress.Families.MustParse(spec), 1<<16, 4)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if got := fmt.Sprintf("%.4g rounds, %.0f bytes: %v", m.Rounds, m.Bytes, m.Asked); got != want {
			t.Errorf("%s: %s; want %s", spec, got, want)
		}
	}
}
