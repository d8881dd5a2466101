package compresstest

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// Each is for the suite's own tests.
var OfSeveral = ofSeveral[*testing.T]

// Exchanged is a hash of all that ranks put into three steps of an exchange on d
// elements; nil if the codec has no exchange of its own.
func Exchanged(f compress.Family, d int, g func(step, rank int) []float32) ([]byte, error) {
	r, err := newRing(f, d)
	if err != nil || r.road != compress.RoadOwn {
		return nil, err
	}
	sum := sha256.New()
	for n := range 3 {
		var all [][]float32
		for rank := range world {
			all = append(all, g(n, rank))
		}
		if err := r.step(n, all); err != nil {
			return nil, err
		}
		sum.Write(bytes.Join(r.log, nil))
	}
	return sum.Sum(nil)[:8], nil
}
