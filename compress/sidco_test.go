package compress_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/compress/compresstest"
)

// The number kept is near the number aimed at, on laws that are not the one
// fitted.
func TestSIDCoKeepsAboutK(t *testing.T) {
	const d = 1 << 18
	for _, spec := range []string{"sidco(keep=0.01)", "sidco(keep=0.001)", "sidco(keep=0.001,law=pareto)", "sidco(keep=0.1,law=pareto)"} {
		f := compress.Families.MustParse(spec).(compress.SIDCo)
		c, err := f.New(on(d))
		if err != nil {
			t.Fatal(err)
		}
		for _, law := range []string{"gaussian", "laplace", "t3"} {
			p, err := c.Append(nil, compresstest.Vector(law, d, 0), compress.Step{})
			if err != nil {
				t.Fatal(err)
			}
			k, _ := bits.Uvarint(p)
			if off := math.Log2(float64(k) / (f.Keep * d)); math.Abs(off) > 0.6 {
				t.Errorf("%s on %s: kept %d of %d, aimed at %v", spec, law, k, d, f.Keep*d)
			} else {
				t.Logf("%s on %s: kept %.2f of what it aimed at", spec, law, math.Exp2(off))
			}
		}
	}
}
