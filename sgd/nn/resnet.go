package nn

import (
	"errors"

	"github.com/gradlab/gradlab/sgd"
)

// ResNet20 is the CIFAR ResNet of 6n + 2 layers with n = 3 (He et al. 2015,
// §4.2). It has a 3×3 convolution, three stages of three blocks with 16, 32 and 64
// channels, the grid halved between stages, and a mean over the grid. A block
// is
//
//	ReLU(x + BN(conv(ReLU(BN(conv(x))))))
//
// with option A shortcuts, which have no parameters: 269,722 trainable values
// on 3×32×32 with 10 classes.
type ResNet20 struct {
	ZeroGamma bool    `doc:"start the last scale of each block at 0"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
	Init      string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
}

var _ = Models.Add("resnet20", "CIFAR ResNet-20 with batch norm, 270 k parameters", ResNet20{Init: "he"})

// Validate checks the options.
func (m ResNet20) Validate() error {
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init))
}

// New builds the model for inputs of at least 4×4.
func (m ResNet20) New(in sgd.Shape, classes int) (sgd.Model, error) {
	if err := checkSide("resnet20", in, 4); err != nil {
		return nil, err
	}
	init := residualInits[m.Init]
	conv := func(out, stride int) Layer {
		return Conv{Out: out, Kernel: 3, Stride: stride, Pad: 1, NoBias: true, Init: init.conv}
	}
	layers := Sequential{conv(16, 1), BatchNorm{}, ReLU{}}
	for stage, width := range []int{16, 32, 64} {
		for block := range 3 {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			layers = append(layers, Residual{Body: Sequential{
				conv(width, stride), BatchNorm{}, ReLU{},
				conv(width, 1), BatchNorm{ZeroScale: m.ZeroGamma},
			}}, ReLU{})
		}
	}
	layers = append(layers, GlobalAvgPool{}, Dense{Out: classes, Init: init.classifier})
	return New(in, classes, m.Smoothing, layers...)
}
