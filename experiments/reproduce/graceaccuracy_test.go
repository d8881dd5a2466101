package reproduce

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/config"
)

// Whatever GRACE trained, a run takes.
func TestGraceMethodsAreTaken(t *testing.T) {
	t.Parallel()
	trials, err := advise.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, x := range trials {
		if x.Task != graceTask || x.Source != graceSource {
			continue
		}
		codec, unchecked, err := stated(x.Way)
		if err != nil {
			t.Fatal(err)
		}
		c := config.Default()
		if err := c.Set("codec", codec); err != nil {
			t.Error(err)
		}
		if unchecked {
			told++
			if off := (GraceAccuracy{}).Mechanisms()[0].Off(c); len(off) != 1 || "codec=feedback("+strings.TrimPrefix(off[0], "codec=")+")" != "codec="+x.Way {
				t.Errorf("without feedback %s is %v", codec, off)
			}
		}
	}
	if told == 0 {
		t.Error("all of GRACE's codecs under feedback are contractions here")
	}
}
