package nn

import (
	"errors"

	"github.com/gradlab/gradlab/sgd"
)

// Inception3 is Inception-v3 (Szegedy et al. 2015), layer by layer as in torchvision:
// every convolution has a batch norm (ε = 0.001) and a ReLU. On 3×299×299 with 1000
// classes it has 23,834,568 trainable values and 5.7 billion multiply-adds.
//
// The auxiliary classifier, which training may have beside it, is left out.
type Inception3 struct {
	Dropout    float64 `doc:"share of values dropped in front of the classifier"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

var _ = Models.Add("inception3", "ImageNet Inception-v3 with batch norm, 23.8 M parameters", Inception3{Dropout: 0.5})

func (m Inception3) norm() normed { return normed{m.BNMomentum, m.Ghost} }

// Validate checks the options.
func (m Inception3) Validate() error {
	return errors.Join(checkDropout(m.Dropout), checkSmoothing(m.Smoothing), m.norm().check())
}

// New builds the model for inputs of at least 75×75.
func (m Inception3) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("inception3", in, 75); err != nil {
		return nil, err
	}
	b := inception{norm: m.norm()}
	halve := MaxPool{Kernel: 3, Stride: 2}
	layers := Sequential{
		b.down("Conv2d_1a_3x3", 32), b.valid("Conv2d_2a_3x3", 32, 3), b.same("Conv2d_2b_3x3", 64, 3, 3), halve,
		b.valid("Conv2d_3b_1x1", 80, 1), b.valid("Conv2d_4a_3x3", 192, 3), halve,
		b.blockA("Mixed_5b.", 32), b.blockA("Mixed_5c.", 64), b.blockA("Mixed_5d.", 64),
		b.blockB("Mixed_6a."),
		b.blockC("Mixed_6b.", 128), b.blockC("Mixed_6c.", 160), b.blockC("Mixed_6d.", 160), b.blockC("Mixed_6e.", 192),
		b.blockD("Mixed_7a."),
		b.blockE("Mixed_7b."), b.blockE("Mixed_7c."),
		GlobalAvgPool{}, Dropout{Rate: m.Dropout}, Dense{Out: in.Classes, Init: Glorot},
	}
	return newNamed(in, m.Smoothing, append(b.modules, "fc"), layers)
}

// inception makes the parts of the network, and notes their names as it goes.
type inception struct {
	norm    normed
	modules []string
}

func (b *inception) unit(name string, c Conv) Sequential {
	c.NoBias = true
	norm := b.norm.layer(false)
	norm.Epsilon = 1e-3
	b.modules = append(b.modules, name+".conv", name+".bn")
	return Sequential{c, norm, ReLU{}}
}

// same keeps the grid, valid has no padding, down halves the grid without any.
func (b *inception) same(name string, out, kh, kw int) Sequential {
	return b.unit(name, Conv{Out: out, Kernel: kh, KernelW: kw, Pad: kh / 2, PadW: kw / 2})
}

func (b *inception) valid(name string, out, k int) Sequential {
	return b.unit(name, Conv{Out: out, Kernel: k})
}

func (b *inception) down(name string, out int) Sequential {
	return b.unit(name, Conv{Out: out, Kernel: 3, Stride: 2})
}

// pooled is a mean that keeps the grid and a 1×1 convolution.
func (b *inception) pooled(name string, out int) Sequential {
	return append(Sequential{AvgPool{Kernel: 3, Stride: 1, Pad: 1}}, b.same(name+"branch_pool", out, 1, 1))
}

// blockA is on 35×35 (figure 5 of the paper).
func (b *inception) blockA(name string, pool int) Layer {
	return Concat{
		b.same(name+"branch1x1", 64, 1, 1),
		{b.same(name+"branch5x5_1", 48, 1, 1), b.same(name+"branch5x5_2", 64, 5, 5)},
		{b.same(name+"branch3x3dbl_1", 64, 1, 1), b.same(name+"branch3x3dbl_2", 96, 3, 3), b.same(name+"branch3x3dbl_3", 96, 3, 3)},
		b.pooled(name, pool),
	}
}

// blockB leads from 35×35 to 17×17 (figure 10).
func (b *inception) blockB(name string) Layer {
	return Concat{
		b.down(name+"branch3x3", 384),
		{b.same(name+"branch3x3dbl_1", 64, 1, 1), b.same(name+"branch3x3dbl_2", 96, 3, 3), b.down(name+"branch3x3dbl_3", 96)},
		{MaxPool{Kernel: 3, Stride: 2}},
	}
}

// blockC is on 17×17 (figure 6).
func (b *inception) blockC(name string, n int) Layer {
	return Concat{
		b.same(name+"branch1x1", 192, 1, 1),
		{b.same(name+"branch7x7_1", n, 1, 1), b.same(name+"branch7x7_2", n, 1, 7), b.same(name+"branch7x7_3", 192, 7, 1)},
		{
			b.same(name+"branch7x7dbl_1", n, 1, 1), b.same(name+"branch7x7dbl_2", n, 7, 1), b.same(name+"branch7x7dbl_3", n, 1, 7),
			b.same(name+"branch7x7dbl_4", n, 7, 1), b.same(name+"branch7x7dbl_5", 192, 1, 7),
		},
		b.pooled(name, 192),
	}
}

// blockD leads from 17×17 to 8×8.
func (b *inception) blockD(name string) Layer {
	return Concat{
		{b.same(name+"branch3x3_1", 192, 1, 1), b.down(name+"branch3x3_2", 320)},
		{
			b.same(name+"branch7x7x3_1", 192, 1, 1), b.same(name+"branch7x7x3_2", 192, 1, 7),
			b.same(name+"branch7x7x3_3", 192, 7, 1), b.down(name+"branch7x7x3_4", 192),
		},
		{MaxPool{Kernel: 3, Stride: 2}},
	}
}

// blockE is on 8×8 (figure 7).
func (b *inception) blockE(name string) Layer {
	return Concat{
		b.same(name+"branch1x1", 320, 1, 1),
		{b.same(name+"branch3x3_1", 384, 1, 1), b.split(name+"branch3x3_2", 384)},
		{b.same(name+"branch3x3dbl_1", 448, 1, 1), b.same(name+"branch3x3dbl_2", 384, 3, 3), b.split(name+"branch3x3dbl_3", 384)},
		b.pooled(name, 192),
	}
}

// split is a 1×3 and a 3×1 convolution side by side.
func (b *inception) split(name string, out int) Layer {
	return Concat{b.same(name+"a", out, 1, 3), b.same(name+"b", out, 3, 1)}
}
