package nn

import (
	"errors"

	"github.com/gradlab/gradlab/sgd"
)

// CIFARResNet is the options of the CIFAR ResNets of 6n + 2 layers, ResNet20,
// ResNet32, ResNet56 and ResNet110 (He et al. 2015, section 4.2): a 3×3 convolution, three
// stages of n blocks with 16, 32 and 64 channels, the grid halved between stages, and
// a mean over the grid. A block is
//
//	ReLU(x + BN(conv(ReLU(BN(conv(x))))))
//
// with option A shortcuts, which have no parameters: 269,722, 464,154, 853,018 and
// 1,727,962 trainable values on 3×32×32 with 10 classes.
type CIFARResNet struct {
	ZeroGamma  bool    `doc:"start the last scale of each block at 0"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	Init       string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

// The CIFAR ResNets, by depth.
type (
	// ResNet20 is the CIFAR ResNet-20 (He et al. 2015, section 4.2): three stages of 3
	// blocks ReLU(x + BN(conv(ReLU(BN(conv(x)))))) with 16, 32 and 64 channels, 269,722
	// trainable values on 3×32×32 with 10 classes. CIFARResNet says the rest.
	ResNet20 CIFARResNet

	// ResNet32 is the CIFAR ResNet-32 (He et al. 2015, section 4.2): three stages of 5
	// blocks ReLU(x + BN(conv(ReLU(BN(conv(x)))))) with 16, 32 and 64 channels, 464,154
	// trainable values on 3×32×32 with 10 classes. CIFARResNet says the rest.
	ResNet32 CIFARResNet

	// ResNet56 is the CIFAR ResNet-56 (He et al. 2015, section 4.2): three stages of 9
	// blocks ReLU(x + BN(conv(ReLU(BN(conv(x)))))) with 16, 32 and 64 channels, 853,018
	// trainable values on 3×32×32 with 10 classes. CIFARResNet says the rest.
	ResNet56 CIFARResNet

	// ResNet110 is the CIFAR ResNet-110 (He et al. 2015, section 4.2): three stages of 18
	// blocks ReLU(x + BN(conv(ReLU(BN(conv(x)))))) with 16, 32 and 64 channels, 1,727,962
	// trainable values on 3×32×32 with 10 classes. CIFARResNet says the rest.
	ResNet110 CIFARResNet
)

var (
	_ = Models.Add("resnet20", "CIFAR ResNet-20 with batch norm, 270 k parameters", ResNet20{Init: "he"})
	_ = Models.Add("resnet32", "CIFAR ResNet-32 with batch norm, 464 k parameters", ResNet32{Init: "he"})
	_ = Models.Add("resnet56", "CIFAR ResNet-56 with batch norm, 853 k parameters", ResNet56{Init: "he"})
	_ = Models.Add("resnet110", "CIFAR ResNet-110 with batch norm, 1.73 M parameters", ResNet110{Init: "he"})
)

// Validate checks the options.
func (m ResNet20) Validate() error { return CIFARResNet(m).validate() }

// Validate checks the options.
func (m ResNet32) Validate() error { return CIFARResNet(m).validate() }

// Validate checks the options.
func (m ResNet56) Validate() error { return CIFARResNet(m).validate() }

// Validate checks the options.
func (m ResNet110) Validate() error { return CIFARResNet(m).validate() }

// New builds the model for inputs of at least 4×4.
func (m ResNet20) New(in sgd.Sample) (sgd.Model, error) {
	return CIFARResNet(m).build("resnet20", in, 3)
}

// New builds the model for inputs of at least 4×4.
func (m ResNet32) New(in sgd.Sample) (sgd.Model, error) {
	return CIFARResNet(m).build("resnet32", in, 5)
}

// New builds the model for inputs of at least 4×4.
func (m ResNet56) New(in sgd.Sample) (sgd.Model, error) {
	return CIFARResNet(m).build("resnet56", in, 9)
}

// New builds the model for inputs of at least 4×4.
func (m ResNet110) New(in sgd.Sample) (sgd.Model, error) {
	return CIFARResNet(m).build("resnet110", in, 18)
}

func (m CIFARResNet) validate() error {
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init), m.norm().check())
}

func (m CIFARResNet) norm() normed { return normed{m.BNMomentum, m.Ghost} }

func (m CIFARResNet) build(name string, in sgd.Sample, blocks int) (sgd.Model, error) {
	if err := checkSide(name, in, 4); err != nil {
		return nil, err
	}
	init, norm := residualInits[m.Init], m.norm()
	conv := func(out, stride int) Layer {
		return Conv{Out: out, Kernel: 3, Stride: stride, Pad: 1, NoBias: true, Init: init.conv}
	}
	layers := Sequential{conv(16, 1), norm.layer(false), ReLU{}}
	for stage, width := range []int{16, 32, 64} {
		for block := range blocks {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			layers = append(layers, Residual{Body: Sequential{
				conv(width, stride), norm.layer(false), ReLU{},
				conv(width, 1), norm.layer(m.ZeroGamma),
			}}, ReLU{})
		}
	}
	layers = append(layers, GlobalAvgPool{}, Dense{Out: in.Classes, Init: init.classifier})
	return New(in, m.Smoothing, layers...)
}
