package sgdtest

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// GradOptions are the settings of Gradient; zero values mean the defaults.
type GradOptions struct {
	PerSpan   int     // coordinates tried in each trainable span; 4
	Tolerance float64 // relative to the larger of the two and the span's rms; 0.05
	Seed      uint64  // of the choice of coordinates
}

// Gradient checks m.Grad at params on batch b, in the float32 the model runs
// in: on random coordinates of every trainable span it compares the gradient
// with central differences of the loss,
//
//	(L(w + h) − L(w − h)) / 2h ≈ ∂L/∂w,  h = 0.1, 0.03, 0.01, …
//
// and accepts a coordinate that agrees at any h: rounding spoils small steps,
// the corners of ReLUs large ones. It finds wrong gradients, not imprecise ones.
// Check away from special points: at a fresh start, zero scales put ReLUs on
// their corner and tiny weights drown gradients in rounding.
//
// It also checks the contract of a Pass: Grad is overwritten wherever it held
// NaN, and Need and Ready are called once a span, Need in order and Ready in
// reverse. It returns the first disagreement, or nil. params is as before.
func Gradient(m sgd.Model, params []float32, b sgd.Batch, opt GradOptions) error {
	if opt.PerSpan == 0 {
		opt.PerSpan = 4
	}
	if opt.Tolerance == 0 {
		opt.Tolerance = 0.05
	}
	layout := m.Layout()
	grad, scrap := make([]float32, layout.Size()), make([]float32, layout.Size())
	for i := range grad {
		grad[i] = float32(math.NaN())
	}
	order := &callOrder{spans: len(layout.Spans)}
	pass := sgd.Pass{Params: params, Grad: grad, Need: order.need, Ready: order.ready, Scratch: m.NewScratch()}
	ctx := context.Background()
	if _, err := m.Grad(ctx, pass, b); err != nil {
		return err
	}
	if order.needed != order.spans || order.finished != order.spans {
		return fmt.Errorf("%d spans: Need was called for %d, Ready for %d", order.spans, order.needed, order.finished)
	}
	for i, g := range grad {
		if g != g {
			return fmt.Errorf("gradient of value %d is NaN: not overwritten, or not finite", i)
		}
	}

	pass.Grad, pass.Need, pass.Ready = scrap, nil, nil
	loss := func(i int, v float32) (l float64, err error) {
		defer func(old float32) { params[i] = old }(params[i])
		params[i] = v
		return m.Grad(ctx, pass, b)
	}
	for si, s := range layout.Spans {
		if s.Role == sgd.Buffer {
			continue
		}
		var square float64
		for _, g := range layout.View(grad, si) {
			square += float64(g) * float64(g)
		}
		rms := math.Sqrt(square / float64(s.Len()))
		key := rng.New(opt.Seed, "gradient check").With(uint64(si))
		for k := range min(opt.PerSpan, s.Len()) {
			i := s.Off + key.Permute(k, s.Len())
			g := float64(grad[i])
			closest, agrees := math.Inf(1), false
			for h := 0.1; h > 1e-4 && !agrees; h /= math.Sqrt(10) {
				up, down := params[i]+float32(h), params[i]-float32(h)
				a, err := loss(i, up)
				if err != nil {
					return err
				}
				z, err := loss(i, down)
				if err != nil {
					return err
				}
				num := (a - z) / (float64(up) - float64(down))
				if math.Abs(num-g) < math.Abs(closest-g) {
					closest = num
				}
				// 1e-5 stands for the rounding of the loss itself.
				slack := opt.Tolerance*max(math.Abs(g), math.Abs(num), rms) + 1e-5
				agrees = math.Abs(num-g) <= slack
			}
			if !agrees {
				return fmt.Errorf("%s[%d]: gradient %.6g, by differences %.6g", s.Name, i-s.Off, g, closest)
			}
		}
	}
	return nil
}

// callOrder watches that callbacks come in order.
type callOrder struct{ spans, needed, finished int }

func (c *callOrder) need(span int) error {
	if span != c.needed || c.finished > 0 {
		return fmt.Errorf("Need(%d) out of order, expected %d", span, c.needed)
	}
	c.needed++
	return nil
}

func (c *callOrder) ready(span int) error {
	if c.needed != c.spans {
		return fmt.Errorf("Ready(%d) before Need of %d", span, c.needed)
	}
	if span != c.spans-1-c.finished {
		return fmt.Errorf("Ready(%d) out of order, expected %d", span, c.spans-1-c.finished)
	}
	c.finished++
	return nil
}
