// Package conv holds the three products of a two-dimensional convolution over
// channels-last images, without a stored matrix of unfolded patches.
package conv

import "fmt"

// Geom is the shape of a convolution with square windows.
type Geom struct {
	H, W    int // of the input
	In, Out int // channels
	Kernel  int
	Stride  int
	Pad     int // zeros on each side
}

// OutH returns the height of the output.
func (g Geom) OutH() int { return (g.H+2*g.Pad-g.Kernel)/g.Stride + 1 }

// OutW returns the width of the output.
func (g Geom) OutW() int { return (g.W+2*g.Pad-g.Kernel)/g.Stride + 1 }

// Validate reports what is wrong with the shape, if anything.
func (g Geom) Validate() error {
	if g.H < 1 || g.W < 1 || g.In < 1 || g.Out < 1 || g.Kernel < 1 || g.Stride < 1 || g.Pad < 0 {
		return fmt.Errorf("conv: all of %+v must be at least 1, and pad at least 0", g)
	}
	if g.H+2*g.Pad < g.Kernel || g.W+2*g.Pad < g.Kernel {
		return fmt.Errorf("conv: the window of %+v is larger than the padded image", g)
	}
	return nil
}

func (g Geom) inLen() int  { return g.H * g.W * g.In }
func (g Geom) outLen() int { return g.OutH() * g.OutW() * g.Out }
func (g Geom) taps() int   { return g.Kernel * g.Kernel }
func (g Geom) depth() int  { return g.taps() * g.In }

// Options of a Plan.
type Options struct {
	NoWinograd bool // round as a plain sum does, whatever the time
	// Rounded permits that the operands of products be rounded to bfloat16: done is what
	// is as fast or faster than with float32 where the processor has such products. The
	// choice is one of the geometry alone, and bits are the same everywhere.
	Rounded bool
}
