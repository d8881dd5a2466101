package data

import (
	"image"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// TestMovedAgainstPadAndCrop compares with the textbook: pad, crop, mirror.
func TestMovedAgainstPadAndCrop(t *testing.T) {
	t.Parallel()
	const h, w, pad = 5, 7, 3
	var tb table
	for i := range tb {
		tb[i] = float32(i)
	}
	from := make([]uint8, h*w)
	for i := range from {
		from[i] = uint8(i + 1)
	}
	var padded [h + 2*pad][w + 2*pad]uint8
	for i, v := range from {
		padded[pad+i/w][pad+i%w] = v
	}
	to := make([]float32, h*w)
	for dy := -pad; dy <= pad; dy++ {
		for dx := -pad; dx <= pad; dx++ {
			for _, flip := range []bool{false, true} {
				tb.moved(to, from, h, w, dx, dy, flip, false)
				for i := range to {
					y, x := i/w, i%w
					if flip {
						x = w - 1 - x
					}
					if want := float32(padded[pad+y+dy][pad+x+dx]); to[i] != want {
						t.Fatalf("dx %d dy %d flip %v at %d: %g, want %g", dx, dy, flip, i, to[i], want)
					}
				}
			}
		}
	}
}

func TestShiftCoversItsRange(t *testing.T) {
	t.Parallel()
	seen, flips := map[int]int{}, 0
	for p := range uint64(2000) {
		j := jitter{on: true, key: rng.New(1, "augment").With(p)}
		dx, dy, flip := j.shift(4, true)
		seen[dx]++
		if dy < -4 || dy > 4 {
			t.Fatal("out of range")
		}
		if flip {
			flips++
		}
		if _, _, flip := j.shift(4, false); flip {
			t.Fatal("mirrored where that is off")
		}
	}
	if len(seen) != 9 || flips < 900 || flips > 1100 {
		t.Errorf("%d displacements, %d flips", len(seen), flips)
	}
}

func TestFramesStayInside(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1, 1}, {500, 375}, {375, 500}, {64, 64}, {3, 4000}, {70, 70}} {
		w, h := size[0], size[1]
		all := image.Rect(0, 0, w, h)
		for _, keep := range []float64{1, 7. / 8} {
			if r := centre(w, h, 64, 64, keep); r.Empty() || !r.In(all) || r.Dx() != r.Dy() {
				t.Errorf("centre of %v: %v", size, r)
			}
		}
		for p := range uint64(200) {
			r, _ := jitter{on: true, key: rng.Key(p)}.crop(w, h, 64, 64, 0.08, 4./3)
			if r.Empty() || !r.In(all) {
				t.Fatalf("crop of %v: %v", size, r)
			}
		}
	}
	if r := centre(64, 64, 64, 64, 7./8); r.Dx() != 64 {
		t.Error("a picture of the right size is not to be scaled")
	}
}
