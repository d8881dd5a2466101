package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// A codec that takes eleven times as long as in the table of rates is told from it on any
// machine, and one that is as it was is not. What no table has is not compared.
func TestRatesOfAnotherCodecAreTold(t *testing.T) {
	t.Parallel()
	table, err := coding.Load(coding.Default)
	if err != nil {
		t.Fatal(err)
	}
	at := func(spec string, times float64) *hardware.CodecRate {
		r := *table.Find(spec, "matrix", 0)
		i := slices.Index(r.Elements, 262144)
		r.Elements, r.Encode, r.Decode = r.Elements[i:i+1], []float64{times * r.Encode[i]}, []float64{times * r.Decode[i]}
		return &r
	}
	const spec = "topk(keep=0.01)"
	for _, machine := range []float64{0.5, 1, 30} {
		same := billedAt(table, at(spec, machine), at("bf16", machine))
		slow := billedAt(table, at(spec, 11*machine), at("bf16", machine))
		if s := same.words(spec); same.Times < 0.99 || same.Times > 1.01 || strings.Contains(s, "device.codec") {
			t.Errorf("on a machine %g times as slow: %s", machine, s)
		}
		for _, want := range []string{"11 times", coding.Default, "device.codec=here", "gradlab bench codecs '" + spec + "' --out"} {
			if s := slow.words(spec); !strings.Contains(s, want) {
				t.Errorf("no %q in %s", want, s)
			}
		}
	}
	mine := at(spec, 1)
	mine.Codec = "mine"
	if b := billedAt(table, mine, at("bf16", 1)); b != nil {
		t.Errorf("a codec that no table has: %+v", b)
	}
}
