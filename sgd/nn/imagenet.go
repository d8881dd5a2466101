package nn

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// ResNet18 and ResNet50 are the ImageNet ResNets (He et al. 2015, table 1). A
// 7×7 convolution and a 3×3 maximum, both with stride 2, stand before four stages of blocks
// with 64, 128, 256 and 512 channels, the grid halved between stages, and a
// mean over the grid. A block is
//
//	basic:      ReLU(s + BN(conv 3×3(ReLU(BN(conv 3×3(x))))))
//	bottleneck: ReLU(s + BN(conv 1×1(ReLU(BN(conv 3×3(ReLU(BN(conv 1×1(x)))))))))
//
// where the bottleneck's last convolution has four times the channels. The
// shortcut s is x, or BN(conv 1×1(x)) where shapes differ. Bottlenecks halve
// the grid in the 3×3 convolution, as everybody does by now (v1.5): the paper's
// 1×1 would throw three quarters of x away.
//
// On 3×224×224 with 1000 classes they have 11,689,512 and 25,557,032 trainable
// values, and 1.8 and 4.1 billion multiply-adds.
//
// With stem=cifar a 3×3 convolution with stride 1 and no maximum stand in front, as
// is customary for 32×32. resnet18(stem=cifar) is the network of PowerSGD's figures
// (Vogels et al. 2019), with 11,173,962 trainable values for 10 classes and 0.56
// billion multiply-adds. On it
// powersgd of rank 1, 2 and 4 sends 183,740, 329,040 and 619,640 bytes of gradient a
// step, 243, 136 and 72 times less than raw.
type (
	ResNet18 struct {
		ZeroGamma bool    `doc:"start the last scale of each block at 0"`
		Smoothing float64 `doc:"label smoothing in [0, 1)"`
		Init      string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
		Stem      string  `doc:"what stands in front: imagenet (7×7 convolution and maximum, stride 2 each) or cifar (3×3 convolution, stride 1)"`
	}
	ResNet50 struct {
		ZeroGamma bool    `doc:"start the last scale of each block at 0"`
		Smoothing float64 `doc:"label smoothing in [0, 1)"`
		Init      string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
		Stem      string  `doc:"what stands in front: imagenet (7×7 convolution and maximum, stride 2 each) or cifar (3×3 convolution, stride 1)"`
	}
)

var (
	_ = Models.Add("resnet18", "ImageNet ResNet-18 with batch norm, 11.7 M parameters", ResNet18{Init: "he", Stem: "imagenet"})
	_ = Models.Add("resnet50", "ImageNet ResNet-50 v1.5 with batch norm, 25.6 M parameters", ResNet50{Init: "he", Stem: "imagenet"})
)

// Validate checks the options.
func (m ResNet18) Validate() error {
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init), checkStem(m.Stem))
}

// New builds the model for inputs of any shape.
func (m ResNet18) New(in sgd.Shape, classes int) (sgd.Model, error) {
	return imageNet(in, classes, m.Smoothing, m.Init, m.Stem, []int{2, 2, 2, 2}, 1, func(width, stride int) Sequential {
		return Sequential{
			Conv{Out: width, Kernel: 3, Stride: stride, Pad: 1, NoBias: true, Init: residualInits[m.Init].conv}, BatchNorm{}, ReLU{},
			Conv{Out: width, Kernel: 3, Pad: 1, NoBias: true, Init: residualInits[m.Init].conv}, BatchNorm{ZeroScale: m.ZeroGamma},
		}
	})
}

// Validate checks the options.
func (m ResNet50) Validate() error {
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init), checkStem(m.Stem))
}

// New builds the model for inputs of any shape.
func (m ResNet50) New(in sgd.Shape, classes int) (sgd.Model, error) {
	return imageNet(in, classes, m.Smoothing, m.Init, m.Stem, []int{3, 4, 6, 3}, 4, func(width, stride int) Sequential {
		return Sequential{
			Conv{Out: width, Kernel: 1, NoBias: true, Init: residualInits[m.Init].conv}, BatchNorm{}, ReLU{},
			Conv{Out: width, Kernel: 3, Stride: stride, Pad: 1, NoBias: true, Init: residualInits[m.Init].conv}, BatchNorm{}, ReLU{},
			Conv{Out: 4 * width, Kernel: 1, NoBias: true, Init: residualInits[m.Init].conv}, BatchNorm{ZeroScale: m.ZeroGamma},
		}
	})
}

// stems is what may stand in front of the stages, by name. imagenet is the default:
// spec text without stem is what it was.
var stems = map[string]func(Init) Sequential{"": imageNetStem, "imagenet": imageNetStem, "cifar": cifarStem}

func imageNetStem(i Init) Sequential {
	return Sequential{
		Conv{Out: 64, Kernel: 7, Stride: 2, Pad: 3, NoBias: true, Init: i}, BatchNorm{}, ReLU{},
		MaxPool{Kernel: 3, Stride: 2, Pad: 1},
	}
}

func cifarStem(i Init) Sequential {
	return Sequential{Conv{Out: 64, Kernel: 3, Pad: 1, NoBias: true, Init: i}, BatchNorm{}, ReLU{}}
}

// checkStem checks the name of one.
func checkStem(name string) error {
	if _, ok := stems[name]; !ok {
		return fmt.Errorf(`option "stem": no %q; want imagenet or cifar`, name)
	}
	return nil
}

// imageNet is a stem, stages of blocks whose bodies end in expansion times
// their width, and a dense layer.
func imageNet(in sgd.Shape, classes int, smoothing float64, laws, stem string, blocks []int, expansion int, body func(width, stride int) Sequential) (sgd.Model, error) {
	init := residualInits[laws]
	layers := stems[stem](init.conv)
	channels := 64
	for stage, n := range blocks {
		width := 64 << stage
		for block := range n {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			var shortcut Sequential
			if out := expansion * width; stride != 1 || channels != out {
				shortcut = Sequential{Conv{Out: out, Kernel: 1, Stride: stride, NoBias: true, Init: init.conv}, BatchNorm{}}
				channels = out
			}
			layers = append(layers, Residual{Body: body(width, stride), Shortcut: shortcut}, ReLU{})
		}
	}
	return New(in, classes, smoothing, append(layers, GlobalAvgPool{}, Dense{Out: classes, Init: init.classifier})...)
}
