package compresstest

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress"
)

// Errors is the mean squared error of a codec on vectors of one law, over
// ‖g‖²: vNMSE.
type Errors struct {
	Input string  // the law: gaussian, laplace, …
	VNMSE float64 // E‖C(g)−g‖²/‖g‖², over vectors and draws
	Dev   float64 // its standard error
	Bits  float64 // mean payload, bits an element
}

// Vector draws vector n of length d of a law; nil if there is no such law.
func Vector(law string, d, n int) []float32 {
	i := slices.IndexFunc(inputs, func(in input) bool { return in.name == law })
	if i < 0 {
		return nil
	}
	return inputs[i].vector(d, n)
}

// Measure encodes steps vectors of length d of each law, with a fresh codec for
// each law, and returns what the decoded ones are off. A codec with state is
// measured against what it was given, so its residual counts as error, and what
// its receiver makes of it.
func Measure(f compress.Family, d, steps int) ([]Errors, error) {
	var out []Errors
	for _, in := range inputs {
		var e Errors
		err := guard(func() (err error) {
			e, err = errorsOn(f, d, steps, func(i int) []float32 { return in.vector(d, i) })
			return err
		})
		if err != nil {
			return nil, err
		}
		e.Input = in.name
		out = append(out, e)
	}
	return out, nil
}

// MeasureOn is Measure on vectors of the caller's, all of one length; Input
// stays empty.
func MeasureOn(f compress.Family, vectors [][]float32) (Errors, error) {
	if len(vectors) == 0 {
		return Errors{}, nil
	}
	return errorsOn(f, len(vectors[0]), len(vectors), func(i int) []float32 { return vectors[i] })
}

func errorsOn(f compress.Family, d, steps int, vector func(i int) []float32) (e Errors, err error) {
	c, err := newPair(f, block(d))
	if err != nil {
		return e, err
	}
	var sum, square float64
	n := float64(max(1, steps))
	for i := range steps {
		x := vector(i)
		if err := c.encode(x); err != nil {
			return e, err
		}
		clear(c.out)
		if err := c.receive(c.out, 1); err != nil {
			return e, err
		}
		if xx := norm2(x); xx > 0 {
			v := distance2(c.out, x) / xx
			sum, square = sum+v, square+v*v
		}
		e.Bits += 8 * float64(len(c.payload)) / float64(max(1, d)) / n
	}
	e.VNMSE = sum / n
	e.Dev = math.Sqrt(max(0, square/n-sq(e.VNMSE)) / n)
	return e, nil
}
