package lab

import (
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
)

// ErrorOf measures a codec, given by spec text, on two vectors of 65,536
// elements that follow a law (see [compresstest.Vector]): bits an element, and
// the error E‖C(g) − g‖²/‖g‖².
func ErrorOf(spec, law string) (compresstest.Errors, error) {
	f, err := compress.Parse(spec)
	if err != nil {
		return compresstest.Errors{}, err
	}
	const d = 1 << 16
	return compresstest.MeasureOn(f, [][]float32{compresstest.Vector(law, d, 0), compresstest.Vector(law, d, 1)})
}
