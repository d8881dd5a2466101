package lrschedule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/lrschedule"
)

// Every schedule of sides says one of the sides that it lists, the same when asked
// again, and reads back as its text.
func TestSides(t *testing.T) {
	t.Parallel()
	for _, text := range append(lrschedule.Sides.Names(), "progressive(from=10,to=33,begin=1,end=9.5,multiple=4)", "progressive(from=64,to=64,begin=0,end=0)", "stages(sides=[96,64,96],at=[3,4])") {
		s := lrschedule.Sides.MustParse(text)
		if canonical := lrschedule.Sides.Spec(s); lrschedule.Sides.Spec(lrschedule.Sides.MustParse(canonical)) != canonical {
			t.Errorf("%s does not read back", canonical)
		}
		may, seen := s.Sides(), map[int]bool{}
		if !slices.IsSorted(may) || len(slices.Compact(slices.Clone(may))) != len(may) {
			t.Errorf("%s lists %v", text, may)
		}
		for e := 0.0; e < 100; e += 0.125 {
			p := lrschedule.Progress{Epoch: e}
			side := s.Side(p)
			if side != s.Side(p) || side != 0 && !slices.Contains(may, side) {
				t.Fatalf("%s: %d at epoch %v, of %v", text, side, e, may)
			}
			seen[side] = true
		}
		if len(may) > 0 && len(seen) != len(may) {
			t.Errorf("%s: %v of %v come up", text, seen, may)
		}
		if lrschedule.IsFixedSide(s) != (text == "fixed") {
			t.Errorf("%s is taken for another kind", text)
		}
	}
}

// The published schedules: get_resolution of ffcv-imagenet with rn50_88_epochs.yaml,
// and with a wider ramp; fast.ai's phases on one machine.
func TestPublishedSides(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[float64]int{
		"progressive": {0: 160, 65: 160, 70: 160, 70.99: 160, 71: 192, 76: 192, 87: 192},
		// 128 + 8·k in multiples of 32: 144, 176 and 208 are ties, which go to 128, 192 and 192.
		"progressive(from=128,to=224,begin=0,end=12)": {0: 128, 2: 128, 3: 160, 5.99: 160, 6: 192, 10: 192, 11: 224, 12: 224},
		"stages": {0: 128, 13.99: 128, 14: 224, 31.9: 224, 32: 288, 34: 288},
	} {
		s := lrschedule.Sides.MustParse(text)
		for epoch, side := range want {
			if got := s.Side(lrschedule.Progress{Epoch: epoch}); got != side {
				t.Errorf("%s: %d at epoch %v, want %d", text, got, epoch, side)
			}
		}
	}
}

func TestSideRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"progressive(from=2)":             `"from"`,
		"progressive(to=128)":             `"to"`,
		"progressive(to=2000)":            `"to"`,
		"progressive(begin=-1)":           `"begin"`,
		"progressive(begin=9,end=8)":      `"end"`,
		"progressive(multiple=0)":         `"multiple"`,
		"stages(sides=[128],at=[3])":      "one side more",
		"stages(sides=[128,3],at=[3])":    `"sides"`,
		"stages(sides=[8,9,8],at=[3,3])":  "ascending",
		"stages(sides=[8,9,8],at=[3,-3])": "ascending",
	} {
		if _, err := lrschedule.Sides.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
