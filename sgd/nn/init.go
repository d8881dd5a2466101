package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Init is the law of a layer's first weights: the value of draw i at key k.
// fanIn and fanOut are the inputs to one output and the outputs one input
// reaches. The key is (seed, "init", span), so weights depend on nothing else.
type Init func(k Key, i uint64, fanIn, fanOut int) float64

// Key is an address, and draws by it: Float64(i) is uniform in [0, 1), Norm(i) standard
// normal.
type Key = rng.Key

// He draws from N(0, 2/fanIn), which keeps the scale of activations through
// ReLUs (He et al. 2015).
func He(k Key, i uint64, fanIn, _ int) float64 {
	return k.Norm(i) * math.Sqrt(2/float64(fanIn))
}

// HeOut draws from N(0, 2/fanOut), which keeps the scale of gradients on their way
// back through ReLUs (He et al. 2015, arXiv 1502.01852, eq. 14).
func HeOut(k Key, i uint64, _, fanOut int) float64 {
	return k.Norm(i) * math.Sqrt(2/float64(fanOut))
}

// laws is how a residual network starts its convolutions and its classifier.
type laws struct{ conv, classifier Init }

// residualInits is the laws of a residual network by name, for its convolutions
// and its classifier.
//
//	he:    N(0, 2/fanIn) and Glorot's
//	goyal: N(0, 2/fanOut) and N(0, 0.01²), of Goyal et al. 2017 (arXiv 1706.02677,
//	       section 5.1), who also start the last scale of each block at 0 (zero_gamma)
//
// he is the default and what ResNets had before there was a choice: runs, folders
// and spec text without init are what they were.
var residualInits = map[string]laws{
	"": {He, Glorot}, "he": {He, Glorot}, "goyal": {HeOut, Gauss(0.01)},
}

// checkInit checks the name of such laws.
func checkInit(name string) error {
	if _, ok := residualInits[name]; !ok {
		return fmt.Errorf(`option "init": no %q; want he or goyal`, name)
	}
	return nil
}

// Glorot draws uniformly from ±√(6/(fanIn+fanOut)) (Glorot and Bengio 2010).
func Glorot(k Key, i uint64, fanIn, fanOut int) float64 {
	return (float64(2*k.Float64(i)) - 1) * math.Sqrt(6/float64(fanIn+fanOut))
}

// Torch draws uniformly from ±1/√fanIn, as PyTorch starts convolutions and dense
// layers.
func Torch(k Key, i uint64, fanIn, _ int) float64 {
	return (float64(2*k.Float64(i)) - 1) / math.Sqrt(float64(fanIn))
}

// Dirac starts the first in output channels of a convolution of k×k windows and in
// input channels as copies of the input, 1 in the middle of the window and 0
// elsewhere, and leaves the others to rest (airbench94).
func Dirac(k, in int, rest Init) Init {
	middle := k / 2 * (k + 1) * in // of a window, in the order ky, kx, channel
	return func(key Key, i uint64, fanIn, fanOut int) float64 {
		row, col := int(i)/fanIn, int(i)%fanIn
		switch {
		case row >= in:
			return rest(key, i, fanIn, fanOut)
		case col == middle+row:
			return 1
		}
		return 0
	}
}

// Gauss draws from N(0, std²).
func Gauss(std float64) Init {
	return func(k Key, i uint64, _, _ int) float64 { return std * k.Norm(i) }
}

// initial is an Init with its fans filled in.
type initial func(k Key, i uint64) float64

func (f Init) fans(in, out int) initial {
	if f == nil {
		f = He
	}
	return func(k Key, i uint64) float64 { return f(k, i, in, out) }
}

// constant sets every value to v.
func constant(v float64) initial {
	return func(Key, uint64) float64 { return v }
}
