package nn

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Airbench94 is the network of airbench94 (Jordan 2024, arXiv 2404.00498, section 3),
// which reaches 94 % on CIFAR-10 in 9.9 epochs: a 2×2 convolution that whitens its
// input, a GELU, three groups of
//
//	GELU(BN(conv 3×3(GELU(BN(max 2×2(conv 3×3(x)))))))
//
// with 64, 256 and 256 channels, a 3×3 maximum, and a dense layer without bias whose
// output is multiplied by 1/9. On 3×32×32 with 10 classes it has 1,971,352 trainable
// values; the 288 of the whitening convolution are frozen.
//
// Whitening: the filters are the eigenvectors v of the second moments of 2×2 patches,
// each divided by √(λ + 0.0005), and their negatives. They are those of 5,000 training
// images of CIFAR-10, normalised by the data set's means and deviations, and fixed:
// they hold for images like these. Their bias is trained; to train it for 3 epochs
// alone, as the publication does, is the optimizer's business. So is the factor of 64
// on the rate of the batch norms' shifts, their only parameters: names=[bn] has them.
//
// Other convolutions start as copies of their input followed by PyTorch's uniform
// draws. The batch norms' ε is 1e-12.
//
// The publication evaluates with six looks at each picture (section 3.5): as it is and
// mirrored, by a half of the weight, and both shifted by one pixel, to the upper left and
// to the lower right, with the border reflected.
type Airbench94 struct {
	Widths     []int   `doc:"channels of the three groups"`
	Smoothing  float64 `doc:"label smoothing in [0, 1)"`
	BNMomentum float64 `spec:"bn_momentum" doc:"weight of a batch in the running statistics of batch norms; 1: no moving average, but the last batches' statistics; 0: 0.1"`
	Ghost      int     `doc:"samples of a worker's batch that share batch-norm statistics (ghost batch norm); 0: all"`
	Scale      float64 `doc:"factor on the outputs"`
	Whiten     bool    `doc:"the first convolution whitens and is frozen; false: it begins with PyTorch's draws and is trained"`
	Identity   bool    `doc:"other convolutions begin as copies of their input; false: with PyTorch's draws alone"`
	Looks      int     `doc:"looks at each test picture, whose outputs are averaged: 1; 2, mirrored as well; 6, those and four shifted by a pixel"`
}

var _ = Models.Add("airbench94", "the network of airbench94 for CIFAR-10, 2.0 M parameters",
	Airbench94{Widths: []int{64, 256, 256}, Smoothing: 0.2, BNMomentum: 0.4, Scale: 1. / 9, Whiten: true, Identity: true, Looks: 1})

func (m Airbench94) norm() normed { return normed{m.BNMomentum, m.Ghost} }

// Validate checks the options.
func (m Airbench94) Validate() error {
	var errs []error
	if len(m.Widths) != 3 || min(m.Widths[0], m.Widths[1], m.Widths[2]) < 1 {
		errs = append(errs, fmt.Errorf(`option "widths": want three numbers of channels, such as [64,256,256], not %v`, m.Widths))
	}
	if !(m.Scale > 0 && m.Scale <= 1e6) {
		errs = append(errs, fmt.Errorf(`option "scale": want above 0 and at most 1e6, not %g`, m.Scale))
	}
	if m.Looks != 1 && m.Looks != 2 && m.Looks != 6 {
		errs = append(errs, fmt.Errorf(`option "looks": want 1, 2 or 6, not %d`, m.Looks))
	}
	return errors.Join(append(errs, checkSmoothing(m.Smoothing), m.norm().check())...)
}

// New builds the model for inputs of at least 25×25 with three channels.
func (m Airbench94) New(in sgd.Sample) (sgd.Model, error) {
	if in.C != 3 {
		return nil, fmt.Errorf("nn: airbench94 whitens images of three channels, not %d", in.C)
	}
	if err := checkSide("airbench94", in, 25); err != nil {
		return nil, err
	}
	first := Conv{Out: 24, Kernel: 2, Frozen: true, Init: whiten(whitening())}
	if !m.Whiten {
		first.Frozen, first.Init = false, Torch
	}
	layers := Sequential{first, GELU{}}
	channels := 24
	norm := m.norm().layer(false)
	norm.Epsilon, norm.NoScale = 1e-12, true
	for _, out := range m.Widths {
		conv := func(in int) Layer {
			c := Conv{Out: out, Kernel: 3, Pad: 1, NoBias: true, Init: Torch}
			if m.Identity {
				c.Init = Dirac(3, in, Torch)
			}
			return c
		}
		layers = append(layers, conv(channels), MaxPool{Kernel: 2}, norm, GELU{}, conv(out), norm, GELU{})
		channels = out
	}
	layers = append(layers, MaxPool{Kernel: 3}, Dense{Out: in.Classes, NoBias: true, Init: Torch}, Scale{By: m.Scale})
	n, err := New(in, m.Smoothing, layers...)
	if err != nil {
		return nil, err
	}
	n.looks = allLooks[:m.Looks]
	return n, nil
}

//go:embed whitening.txt
var whiteningText string

// whitening reads the filters: a row of 12 values each, in the order ky, kx, channel.
// The file is part of the program: what does not fit is a panic.
func whitening() [][]float64 {
	var rows [][]float64
	for line := range strings.Lines(whiteningText) {
		var row []float64
		for _, word := range strings.Fields(line) {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				panic(fmt.Sprintf("nn: whitening.txt: %v", err))
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	return rows
}

// whiten starts a convolution as filters and their negatives.
func whiten(filters [][]float64) Init {
	return func(_ rng.Key, i uint64, fanIn, _ int) float64 {
		row, col := int(i)/fanIn, int(i)%fanIn
		if row < len(filters) {
			return filters[row][col]
		}
		return -filters[row-len(filters)][col]
	}
}
