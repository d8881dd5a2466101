package nn

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// BasicResNet is the options of the ImageNet ResNets of basic blocks, ResNet18 and
// ResNet34 (He et al. 2015, table 1): a 7×7 convolution and a 3×3 maximum, both with
// stride 2, four stages of blocks with 64, 128, 256 and 512 channels, the grid halved
// between stages, and a mean over the grid. A block is
//
//	ReLU(s + BN(conv 3×3(ReLU(BN(conv 3×3(x))))))
//
// The shortcut s is x, or BN(conv 1×1(x)) where shapes differ. On 3×224×224 with 1000
// classes they have 11,689,512 and 21,797,672 trainable values, and 1.8 and 3.7
// billion multiply-adds.
//
// With stem=cifar a 3×3 convolution with stride 1 and no maximum stand in front, as
// is customary for 32×32: resnet18(stem=cifar) is the network of PowerSGD's figures
// (Vogels et al. 2019), with 11,173,962 trainable values for 10 classes and 0.56
// billion multiply-adds. On it
// powersgd of rank 1, 2 and 4 sends 183,740, 329,040 and 619,640 bytes of gradient a
// step, 243, 136 and 72 times less than raw.
type BasicResNet struct {
	ZeroGamma  bool    `doc:"start the last scale of each block at 0"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	Init       string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
	Stem       string  `doc:"what stands in front: imagenet (7×7 convolution and maximum, stride 2 each) or cifar (3×3 convolution, stride 1)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

// BottleneckResNet is the options of the ImageNet ResNets of bottlenecks, ResNet50,
// ResNet101 and ResNet152: those of BasicResNet with blocks
//
//	ReLU(s + BN(conv 1×1(ReLU(BN(conv 3×3(ReLU(BN(conv 1×1(x)))))))))
//
// whose last convolution has four times the channels. They have 25,557,032,
// 44,549,160 and 60,192,808 trainable values, and 4.1, 7.8 and 11.5 billion
// multiply-adds.
//
// By default bottlenecks halve the grid in the 3×3 convolution, as everybody does by
// now (v1.5, and torchvision). With version=v1 it is the first 1×1, as in the paper,
// which throws three quarters of x away and computes less: 3.9 billion in ResNet-50.
type BottleneckResNet struct {
	ZeroGamma  bool    `doc:"start the last scale of each block at 0"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	Init       string  `doc:"first weights: he (fan-in, Glorot's classifier) or goyal (fan-out, classifier N(0, 0.01²))"`
	Stem       string  `doc:"what stands in front: imagenet (7×7 convolution and maximum, stride 2 each) or cifar (3×3 convolution, stride 1)"`
	Version    string  `doc:"which convolution of a block halves the grid: v1.5 (the 3×3, as in torchvision) or v1 (the first 1×1, as in the paper)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

// The ImageNet ResNets, by depth.
type (
	// ResNet18 is ResNet-18 (He et al. 2015, table 1): stages of 2, 2, 2 and 2 basic
	// blocks. On 3×224×224 with 1000 classes it has 11,689,512 trainable values and 1.8
	// billion multiply-adds. BasicResNet says what blocks and stem=cifar are.
	ResNet18 BasicResNet

	// ResNet34 is ResNet-34 (He et al. 2015, table 1): stages of 3, 4, 6 and 3 basic
	// blocks. On 3×224×224 with 1000 classes it has 21,797,672 trainable values and 3.7
	// billion multiply-adds. BasicResNet says what blocks and stem=cifar are.
	ResNet34 BasicResNet

	// ResNet50 is ResNet-50 (He et al. 2015, table 1): stages of 3, 4, 6 and 3
	// bottlenecks. On 3×224×224 with 1000 classes it has 25,557,032 trainable values and
	// 4.1 billion multiply-adds, with version=v1 3.9. BottleneckResNet says what they are.
	ResNet50 BottleneckResNet

	// ResNet101 is ResNet-101 (He et al. 2015, table 1): stages of 3, 4, 23 and 3
	// bottlenecks. On 3×224×224 with 1000 classes it has 44,549,160 trainable values and
	// 7.8 billion multiply-adds. BottleneckResNet says what they are.
	ResNet101 BottleneckResNet

	// ResNet152 is ResNet-152 (He et al. 2015, table 1): stages of 3, 8, 36 and 3
	// bottlenecks. On 3×224×224 with 1000 classes it has 60,192,808 trainable values and
	// 11.5 billion multiply-adds. BottleneckResNet says what they are.
	ResNet152 BottleneckResNet
)

var (
	_ = Models.Add("resnet18", "ImageNet ResNet-18 with batch norm, 11.7 M parameters", ResNet18{Init: "he", Stem: "imagenet"})
	_ = Models.Add("resnet34", "ImageNet ResNet-34 with batch norm, 21.8 M parameters", ResNet34{Init: "he", Stem: "imagenet"})
	_ = Models.Add("resnet50", "ImageNet ResNet-50 v1.5 with batch norm, 25.6 M parameters", ResNet50{Init: "he", Stem: "imagenet", Version: "v1.5"})
	_ = Models.Add("resnet101", "ImageNet ResNet-101 v1.5 with batch norm, 44.5 M parameters", ResNet101{Init: "he", Stem: "imagenet", Version: "v1.5"})
	_ = Models.Add("resnet152", "ImageNet ResNet-152 v1.5 with batch norm, 60.2 M parameters", ResNet152{Init: "he", Stem: "imagenet", Version: "v1.5"})
)

// Validate checks the options.
func (m ResNet18) Validate() error { return BasicResNet(m).validate() }

// Validate checks the options.
func (m ResNet34) Validate() error { return BasicResNet(m).validate() }

// Validate checks the options.
func (m ResNet50) Validate() error { return BottleneckResNet(m).validate() }

// Validate checks the options.
func (m ResNet101) Validate() error { return BottleneckResNet(m).validate() }

// Validate checks the options.
func (m ResNet152) Validate() error { return BottleneckResNet(m).validate() }

// New builds the model for inputs of any shape.
func (m ResNet18) New(in sgd.Sample) (sgd.Model, error) {
	return BasicResNet(m).build(in, 2, 2, 2, 2)
}

// New builds the model for inputs of any shape.
func (m ResNet34) New(in sgd.Sample) (sgd.Model, error) {
	return BasicResNet(m).build(in, 3, 4, 6, 3)
}

// New builds the model for inputs of any shape.
func (m ResNet50) New(in sgd.Sample) (sgd.Model, error) {
	return BottleneckResNet(m).build(in, 3, 4, 6, 3)
}

// New builds the model for inputs of any shape.
func (m ResNet101) New(in sgd.Sample) (sgd.Model, error) {
	return BottleneckResNet(m).build(in, 3, 4, 23, 3)
}

// New builds the model for inputs of any shape.
func (m ResNet152) New(in sgd.Sample) (sgd.Model, error) {
	return BottleneckResNet(m).build(in, 3, 8, 36, 3)
}

func (m BasicResNet) validate() error {
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init), checkStem(m.Stem), m.norm().check())
}

func (m BasicResNet) norm() normed { return normed{m.BNMomentum, m.Ghost} }

func (m BasicResNet) build(in sgd.Sample, blocks ...int) (sgd.Model, error) {
	init := residualInits[m.Init]
	r := residualNet{laws: init, norm: m.norm(), stem: m.Stem, expansion: 1}
	return r.build(in, m.Smoothing, blocks, func(width, stride int) Sequential {
		return Sequential{
			Conv{Out: width, Kernel: 3, Stride: stride, Pad: 1, NoBias: true, Init: init.conv}, r.norm.layer(false), ReLU{},
			Conv{Out: width, Kernel: 3, Pad: 1, NoBias: true, Init: init.conv}, r.norm.layer(m.ZeroGamma),
		}
	})
}

func (m BottleneckResNet) validate() error {
	var version error
	if m.Version != "" && m.Version != "v1" && m.Version != "v1.5" {
		version = fmt.Errorf(`option "version": no %q; want v1 or v1.5`, m.Version)
	}
	return errors.Join(checkSmoothing(m.Smoothing), checkInit(m.Init), checkStem(m.Stem), version, m.norm().check())
}

func (m BottleneckResNet) norm() normed { return normed{m.BNMomentum, m.Ghost} }

func (m BottleneckResNet) build(in sgd.Sample, blocks ...int) (sgd.Model, error) {
	init := residualInits[m.Init]
	r := residualNet{laws: init, norm: m.norm(), stem: m.Stem, expansion: 4}
	return r.build(in, m.Smoothing, blocks, func(width, stride int) Sequential {
		first, second := 1, stride
		if m.Version == "v1" {
			first, second = stride, 1
		}
		return Sequential{
			Conv{Out: width, Kernel: 1, Stride: first, NoBias: true, Init: init.conv}, r.norm.layer(false), ReLU{},
			Conv{Out: width, Kernel: 3, Stride: second, Pad: 1, NoBias: true, Init: init.conv}, r.norm.layer(false), ReLU{},
			Conv{Out: 4 * width, Kernel: 1, NoBias: true, Init: init.conv}, r.norm.layer(m.ZeroGamma),
		}
	})
}

// stems is what may stand in front of the stages, by name. imagenet is the default:
// spec text without stem is what it was.
var stems = map[string]func(Init, normed) Sequential{"": imageNetStem, "imagenet": imageNetStem, "cifar": cifarStem}

func imageNetStem(i Init, n normed) Sequential {
	return Sequential{
		Conv{Out: 64, Kernel: 7, Stride: 2, Pad: 3, NoBias: true, Init: i}, n.layer(false), ReLU{},
		MaxPool{Kernel: 3, Stride: 2, Pad: 1},
	}
}

func cifarStem(i Init, n normed) Sequential {
	return Sequential{Conv{Out: 64, Kernel: 3, Pad: 1, NoBias: true, Init: i}, n.layer(false), ReLU{}}
}

// checkStem checks the name of one.
func checkStem(name string) error {
	if _, ok := stems[name]; !ok {
		return fmt.Errorf(`option "stem": no %q; want imagenet or cifar`, name)
	}
	return nil
}

// residualNet is a stem, stages of blocks whose bodies end in expansion times
// their width, and a dense layer.
type residualNet struct {
	laws      laws
	norm      normed
	stem      string
	expansion int
}

func (r residualNet) build(in sgd.Sample, smoothing float64, blocks []int, body func(width, stride int) Sequential) (sgd.Model, error) {
	layers, modules := stems[r.stem](r.laws.conv, r.norm), []string{"conv1", "bn1"}
	channels := 64
	for stage, n := range blocks {
		width := 64 << stage
		for block := range n {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			l := Residual{Body: body(width, stride)}
			name := fmt.Sprintf("layer%d.%d.", stage+1, block)
			for i := range 2 + r.expansion/4 {
				modules = append(modules, fmt.Sprintf("%sconv%d", name, i+1), fmt.Sprintf("%sbn%d", name, i+1))
			}
			if out := r.expansion * width; stride != 1 || channels != out {
				l.Shortcut = Sequential{Conv{Out: out, Kernel: 1, Stride: stride, NoBias: true, Init: r.laws.conv}, r.norm.layer(false)}
				modules = append(modules, name+"downsample.0", name+"downsample.1")
				channels = out
			}
			layers = append(layers, l, ReLU{})
		}
	}
	layers = append(layers, GlobalAvgPool{}, Dense{Out: in.Classes, Init: r.laws.classifier})
	return newNamed(in, smoothing, append(modules, "fc"), layers)
}
