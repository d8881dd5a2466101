package nn

import "github.com/gradlab/gradlab/sgd"

// look is a way to see a test picture: shifted, with the border reflected, and then
// perhaps mirrored. An evaluation takes the mean of the outputs, by weight.
type look struct {
	dx, dy int
	mirror bool
	weight float32
}

// allLooks are those of airbench94; the first, the first two, or all are used.
var allLooks = []look{
	{weight: 2}, {mirror: true, weight: 2},
	{dx: -1, dy: -1, weight: 1}, {dx: -1, dy: -1, mirror: true, weight: 1},
	{dx: 1, dy: 1, weight: 1}, {dx: 1, dy: 1, mirror: true, weight: 1},
}

// at writes the pictures in x, of a shape, to dst as l shows them.
func (l look) at(dst, x []float32, in sgd.Shape) {
	h, w := in.H, in.W
	for p := 0; p < len(x); p += h * w {
		for y := range h {
			from, to := x[p+reflected(y+l.dy, h)*w:][:w], dst[p+y*w:][:w]
			for i := range to {
				at := i
				if l.mirror {
					at = w - 1 - i
				}
				to[i] = from[reflected(at+l.dx, w)]
			}
		}
	}
}

// reflected is where a place up to one outside of 0 … n−1 lies inside: the border itself
// is not repeated.
func reflected(i, n int) int {
	if i < 0 {
		return -i
	}
	if i >= n {
		return 2*(n-1) - i
	}
	return i
}
