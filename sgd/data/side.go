package data

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// Pictures of another side than the set's, as a Draw may ask for. Large pictures are cut
// as ever and scaled to that side at once. Small ones, which are stored at the set's
// shape, are shifted, mirrored and erased there, and then scaled with a tent filter as
// wide as the reduction, as large ones are.

// scales is implemented by stores whose read heeds jitter.side.
type scales interface{ scales() bool }

func (z *lazy) scales() bool  { return true }
func (h *held) scales() bool  { return square(h.sh) }
func (s *filed) scales() bool { return square(s.sh) }

// square tells a square picture from rows of numbers.
func square(sh sgd.Shape) bool { return sh.H == sh.W && sh.H > 1 }

// Scales implements sgd.Scaling.
func (s *source) Scales() bool {
	can, ok := s.samples.(scales)
	return ok && can.scales()
}

// at is the shape of the samples of a draw.
func (s *source) at(d sgd.Draw) (sgd.Shape, error) {
	sh := s.form().Shape
	switch {
	case d.Side == 0:
		return sh, nil
	case !s.Scales():
		return sh, fmt.Errorf("data: samples of %v are not pictures that can be scaled to side %d", sh, d.Side)
	case d.Side < 1 || d.Side > sh.H:
		return sh, fmt.Errorf("data: no side of %d within pictures of %v", d.Side, sh)
	}
	return atSide(sh, d.Side), nil
}

// atSide is a shape at a side; 0: as it is.
func atSide(sh sgd.Shape, side int) sgd.Shape {
	if side > 0 {
		sh.H, sh.W = side, side
	}
	return sh
}

// shrinker scales planes of inputs down. The zero value is ready.
type shrinker struct {
	from, to int       // what the taps are for
	first    []int     // of every output, the input that it begins at
	weights  []float32 // of every output, as many as taps
	taps     int
	rows     []float32 // scaled across
	whole    []float32 // a sample before it is scaled
}

// scale writes from, a square plane of side n, into to, one of side m.
func (s *shrinker) scale(to, from []float32, m, n int) {
	s.prepare(m, n)
	s.rows = grow(s.rows, n*m)
	for y := range n {
		in, out := from[y*n:(y+1)*n], s.rows[y*m:(y+1)*m]
		for x := range out {
			sum := float32(0)
			for k, w := range s.weights[x*s.taps : (x+1)*s.taps] {
				sum += float32(w * in[s.first[x]+k])
			}
			out[x] = sum
		}
	}
	for y := range m {
		out := to[y*m : (y+1)*m]
		clear(out)
		for k, w := range s.weights[y*s.taps : (y+1)*s.taps] {
			for x, v := range s.rows[(s.first[y]+k)*m : (s.first[y]+k+1)*m] {
				out[x] += float32(w * v)
			}
		}
	}
}

// prepare makes the taps of a reduction from n to m: a tent of half width n/m around the
// middle of the output, cut at the border, of sum 1.
func (s *shrinker) prepare(m, n int) {
	if s.from == n && s.to == m {
		return
	}
	ratio := float64(n) / float64(m)
	s.from, s.to, s.taps = n, m, min(n, int(math.Ceil(2*ratio))+1)
	s.first, s.weights = grow(s.first, m), grow(s.weights, m*s.taps)
	for x := range m {
		middle := float64((float64(x)+0.5)*ratio) - 0.5
		first := max(0, min(n-s.taps, int(math.Ceil(middle-ratio))))
		w, sum := s.weights[x*s.taps:(x+1)*s.taps], 0.0
		for k := range w {
			sum += max(0, 1-math.Abs(float64(first+k)-middle)/ratio)
		}
		for k := range w {
			w[k] = float32(max(0, 1-math.Abs(float64(first+k)-middle)/ratio) / sum)
		}
		s.first[x] = first
	}
}
