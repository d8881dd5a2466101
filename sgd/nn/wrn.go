package nn

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// WRN is the wide residual network WRN-Depth-Width (Zagoruyko and Komodakis 2016): a
// 3×3 convolution, three stages of (Depth − 4)/6 blocks with 16, 32 and 64 times Width
// channels, the grid halved between stages, a batch norm, a ReLU and a mean over the
// grid. A block normalises first:
//
//	s + conv(drop(ReLU(BN(conv(ReLU(BN(x)))))))
//
// The shortcut s is x, or conv 1×1(ReLU(BN(x))) where shapes differ. On 3×32×32 with 10
// classes wrn(28,10) has 36,479,194 trainable values and wrn(16,4), the network of
// Smith et al. 2017, 2,748,890.
type WRN struct {
	Depth      int     `doc:"layers, 6n + 4"`
	Width      int     `doc:"factor on the channels of each stage"`
	Dropout    float64 `doc:"share of values dropped between the convolutions of a block"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
}

var _ = Models.Add("wrn", "wide ResNet for CIFAR, by depth and width", WRN{Depth: 16, Width: 4})

func (m WRN) norm() normed { return normed{m.BNMomentum, m.Ghost} }

// Validate checks the options.
func (m WRN) Validate() error {
	var errs []error
	if m.Depth < 10 || (m.Depth-4)%6 != 0 || m.Depth > 1000 {
		errs = append(errs, fmt.Errorf(`option "depth": want 6n + 4, such as 10, 16, 22, 28 or 40, not %d`, m.Depth))
	}
	if m.Width < 1 || m.Width > 64 {
		errs = append(errs, fmt.Errorf(`option "width": want 1 to 64, not %d`, m.Width))
	}
	return errors.Join(append(errs, checkDropout(m.Dropout), checkSmoothing(m.Smoothing), m.norm().check())...)
}

// New builds the model for inputs of at least 4×4.
func (m WRN) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("wrn", in, 4); err != nil {
		return nil, err
	}
	conv := func(out, kernel, stride int) Layer {
		return Conv{Out: out, Kernel: kernel, Stride: stride, Pad: kernel / 2, NoBias: true}
	}
	norm := func() Sequential { return Sequential{m.norm().layer(false), ReLU{}} }
	layers, channels := Sequential{conv(16, 3, 1)}, 16
	for stage := range 3 {
		out := 16 << stage * m.Width
		for block := range (m.Depth - 4) / 6 {
			stride := 1
			if stage > 0 && block == 0 {
				stride = 2
			}
			body := append(Sequential{conv(out, 3, stride)}, norm()...)
			if m.Dropout > 0 {
				body = append(body, Dropout{Rate: m.Dropout})
			}
			body = append(body, conv(out, 3, 1))
			if stride != 1 || channels != out { // both see the normalised x
				layers = append(append(layers, norm()...), Residual{Body: body, Shortcut: Sequential{conv(out, 1, stride)}})
			} else {
				layers = append(layers, Residual{Body: append(norm(), body...)})
			}
			channels = out
		}
	}
	layers = append(append(layers, norm()...), GlobalAvgPool{}, Dense{Out: in.Classes, Init: Glorot})
	return New(in, m.Smoothing, layers...)
}
