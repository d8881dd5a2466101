package data

import (
	"image"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Augmentation. A sample's jitter is drawn at (seed, "augment", position), so
// it is the same whichever rank draws the sample, and new in every epoch.

// shift draws a displacement of up to ±pad pixels each way, and whether to
// mirror: the random crop out of a padded image of the CIFAR literature.
func (j jitter) shift(pad int, mirror bool) (dx, dy int, flip bool) {
	if !j.on {
		return 0, 0, false
	}
	if pad > 0 {
		dx, dy = j.key.IntN(0, 2*pad+1)-pad, j.key.IntN(1, 2*pad+1)-pad
	}
	return dx, dy, mirror && j.key.IntN(2, 2) == 1
}

// moved writes from, an h×w plane, into to: displaced by (dx, dy) with black
// (byte 0) coming in, or the picture's own border reflected, then mirrored.
func (t *table) moved(to []float32, from []uint8, h, w, dx, dy int, flip, reflect bool) {
	for y := range h {
		row := to[y*w : (y+1)*w]
		if dx == 0 && dy == 0 {
			t.row(row, from[y*w:(y+1)*w], flip)
			continue
		}
		sy := y + dy
		if reflect {
			sy = mirrored(sy, h)
		}
		for x := range row {
			sx := x + dx
			if flip {
				sx = w - 1 - x + dx
			}
			if reflect {
				sx = mirrored(sx, w)
			}
			v := uint8(0)
			if sx >= 0 && sx < w && sy >= 0 && sy < h {
				v = from[sy*w+sx]
			}
			row[x] = t[v]
		}
	}
}

// row writes a row of from into to, mirrored with flip.
func (t *table) row(to []float32, from []uint8, flip bool) {
	to = to[:len(from)]
	if !flip {
		for x, v := range from {
			to[x] = t[v]
		}
		return
	}
	for x, v := range from {
		to[len(to)-1-x] = t[v]
	}
}

// mirrored is where a place up to n−1 outside of 0 … n−1 lies inside: the border
// itself is not repeated.
func mirrored(x, n int) int {
	if x < 0 {
		x = -x
	}
	if x >= n {
		x = 2*(n-1) - x
	}
	return x
}

// centre is the largest rectangle in the middle of a w×h picture with the
// proportions of the outW×outH output, shrunk by the factor keep.
func centre(w, h, outW, outH int, keep float64) image.Rectangle {
	cw, ch := w, max(1, w*outH/outW)
	if ch > h {
		cw, ch = max(1, h*outW/outH), h
	}
	if cw > outW && ch > outH {
		cw, ch = max(outW, int(float64(cw)*keep)), max(outH, int(float64(ch)*keep))
	}
	x, y := (w-cw)/2, (h-ch)/2
	return image.Rect(x, y, x+cw, y+ch)
}

// crop draws a rectangle of 8% to 100% of a w×h picture's area with an aspect
// of 3:4 to 4:3, to be scaled to the output: the "random resized crop" of the
// ImageNet literature. After ten misfits it settles for the middle.
// minArea is the 8%, maxAspect the 4:3.
func (j jitter) crop(w, h, outW, outH int, minArea, maxAspect float64) (r image.Rectangle, flip bool) {
	flip = j.key.IntN(0, 2) == 1
	for try := uint64(0); try < 10; try++ {
		area := float64(w) * float64(h) * (minArea + float64((1-minArea)*j.key.Float64(4*try+1)))
		aspect := portable.Exp((float64(2*j.key.Float64(4*try+2)) - 1) * portable.Log(maxAspect))
		cw, ch := int(math.Sqrt(area*aspect)+.5), int(math.Sqrt(area/aspect)+.5)
		if cw < 1 || ch < 1 || cw > w || ch > h {
			continue
		}
		x, y := j.key.IntN(4*try+3, w-cw+1), j.key.IntN(4*try+4, h-ch+1)
		return image.Rect(x, y, x+cw, y+ch), flip
	}
	return centre(w, h, outW, outH, 1), flip
}
