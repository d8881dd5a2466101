package nn

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// AlexNet is AlexNet, five convolutions and three dense layers. With towers=1 it is
// that of one column of Krizhevsky 2014, as torchvision has it, with 61,100,840
// trainable values on 3×224×224 with 1000 classes; with towers=2 that of Krizhevsky
// et al. 2012, section 3: the second, fourth and fifth convolution in two groups, and
// normalisation over neighbouring channels behind the first two; 60,965,224 trainable
// values. There are 0.71 and 0.72 billion multiply-adds.
//
// Weights start as PyTorch's (towers=1) or from N(0, 0.01²) (towers=2), biases at 0;
// the paper starts some at 1. Inputs that do not lead to a 6×6 grid are brought to it
// by means over windows, as in torchvision.
type AlexNet struct {
	Towers    int     `doc:"1: one column (Krizhevsky 2014, torchvision); 2: groups and normalisation across channels (Krizhevsky et al. 2012)"`
	Dropout   float64 `doc:"share of values dropped in front of the first two dense layers, with towers=2 behind them"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var _ = Models.Add("alexnet", "ImageNet AlexNet, 61 M parameters", AlexNet{Towers: 1, Dropout: 0.5})

// Validate checks the options.
func (m AlexNet) Validate() error {
	var towers error
	if m.Towers != 1 && m.Towers != 2 {
		towers = fmt.Errorf(`option "towers": want 1 or 2, not %d`, m.Towers)
	}
	return errors.Join(towers, checkDropout(m.Dropout), checkSmoothing(m.Smoothing))
}

// New builds the model for inputs of at least 63×63.
func (m AlexNet) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("alexnet", in, 63); err != nil {
		return nil, err
	}
	pool, drop := MaxPool{Kernel: 3, Stride: 2}, Dropout{Rate: m.Dropout}
	if m.Towers == 1 {
		conv := func(out, kernel, stride int) Layer {
			return Conv{Out: out, Kernel: kernel, Stride: stride, Pad: min(kernel/2, 2), Init: Torch}
		}
		return newNamed(in, m.Smoothing, []string{
			"features.0", "features.3", "features.6", "features.8", "features.10", "classifier.1", "classifier.4", "classifier.6",
		}, Sequential{
			conv(64, 11, 4), ReLU{}, pool, conv(192, 5, 1), ReLU{}, pool,
			conv(384, 3, 1), ReLU{}, conv(256, 3, 1), ReLU{}, conv(256, 3, 1), ReLU{}, pool, AdaptiveAvgPool{Side: 6},
			drop, Dense{Out: 4096, Init: Torch}, ReLU{}, drop, Dense{Out: 4096, Init: Torch}, ReLU{}, Dense{Out: in.Classes, Init: Torch},
		})
	}
	law := Gauss(0.01)
	conv := func(out, kernel, groups int) Layer {
		return Conv{Out: out, Kernel: kernel, Pad: kernel / 2, Groups: groups, Init: law}
	}
	norm := LRNAcross{Size: 5, K: 2, Alpha: 1e-4, Beta: 0.75}
	return New(in, m.Smoothing,
		Conv{Out: 96, Kernel: 11, Stride: 4, Pad: 2, Init: law}, ReLU{}, norm, pool, conv(256, 5, 2), ReLU{}, norm, pool,
		conv(384, 3, 1), ReLU{}, conv(384, 3, 2), ReLU{}, conv(256, 3, 2), ReLU{}, pool, AdaptiveAvgPool{Side: 6},
		Dense{Out: 4096, Init: law}, ReLU{}, drop, Dense{Out: 4096, Init: law}, ReLU{}, drop, Dense{Out: in.Classes, Init: law})
}
