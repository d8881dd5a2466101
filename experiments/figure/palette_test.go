package figure

import (
	"slices"
	"testing"
)

// No series looks like one that is faded: a colour of the palette is black, or far from
// grey.
func TestPaletteHasNoGrey(t *testing.T) {
	t.Parallel()
	for i, c := range palette {
		v := []uint8{c.R, c.G, c.B}
		if spread := slices.Max(v) - slices.Min(v); slices.Max(v) > 0 && spread < 0x50 {
			t.Errorf("colour %d, %v, is near a grey", i+1, c)
		}
	}
}
