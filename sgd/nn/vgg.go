package nn

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// VGG16 is VGG-16 (Simonyan and Zisserman 2014, configuration D): thirteen 3×3
// convolutions of 64 to 512 channels, a 2×2 maximum after the 2nd, 4th, 7th, 10th and
// 13th, and dense layers of 4096, 4096 and classes, each but the last with a ReLU and
// a dropout. With bn=true a batch norm stands behind every convolution. On 3×224×224
// with 1000 classes it has 138,357,544 trainable values, 138,365,992 with batch norms,
// and 15.5 billion multiply-adds.
//
// Other sizes are brought to a 7×7 grid by means over windows, as in torchvision. With
// head=small a mean over the grid and one dense layer take the place of the three, as
// is customary for 32×32: 14,719,818 trainable values for 10 classes, with batch norms
// 14,728,266.
type VGG16 struct {
	BN         bool    `spec:"bn" doc:"a batch norm behind every convolution"`
	Head       string  `doc:"what classifies: imagenet (a 7×7 grid, dense layers of 4096, 4096 and classes) or small (a mean and one dense layer)"`
	Dropout    float64 `doc:"share of values dropped in front of dense layers of head=imagenet but the first"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

var _ = Models.Add("vgg16", "ImageNet VGG-16, 138 M parameters", VGG16{Head: "imagenet", Dropout: 0.5})

func (m VGG16) norm() normed { return normed{m.BNMomentum, m.Ghost} }

// Validate checks the options.
func (m VGG16) Validate() error {
	var head error
	if m.Head != "imagenet" && m.Head != "small" {
		head = fmt.Errorf(`option "head": no %q; want imagenet or small`, m.Head)
	}
	return errors.Join(head, checkDropout(m.Dropout), checkSmoothing(m.Smoothing), m.norm().check())
}

// New builds the model for inputs of at least 32×32.
func (m VGG16) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("vgg16", in, 32); err != nil {
		return nil, err
	}
	var layers Sequential
	var modules []string
	at := 0 // of torchvision's features
	for i, n := range []int{2, 2, 3, 3, 3} {
		for range n {
			layers = append(layers, Conv{Out: min(64<<i, 512), Kernel: 3, Pad: 1, Init: HeOut})
			modules = append(modules, fmt.Sprintf("features.%d", at))
			at++
			if m.BN {
				layers = append(layers, m.norm().layer(false))
				modules = append(modules, fmt.Sprintf("features.%d", at))
				at++
			}
			layers = append(layers, ReLU{})
			at++
		}
		layers = append(layers, MaxPool{Kernel: 2})
		at++
	}
	if m.Head == "small" {
		layers = append(layers, GlobalAvgPool{}, Dense{Out: in.Classes, Init: Gauss(0.01)})
		return newNamed(in, m.Smoothing, append(modules, "classifier"), layers)
	}
	layers = append(layers, AdaptiveAvgPool{Side: 7},
		Dense{Out: 4096, Init: Gauss(0.01)}, ReLU{}, Dropout{Rate: m.Dropout},
		Dense{Out: 4096, Init: Gauss(0.01)}, ReLU{}, Dropout{Rate: m.Dropout},
		Dense{Out: in.Classes, Init: Gauss(0.01)})
	return newNamed(in, m.Smoothing, append(modules, "classifier.0", "classifier.3", "classifier.6"), layers)
}
