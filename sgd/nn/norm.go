package nn

import "fmt"

// normed is the options of batch norm that models share. Zero values are what layers
// take for their defaults.
type normed struct {
	momentum float64
	ghost    int
}

// layer is a batch norm with these options; zero starts its scale at 0.
func (n normed) layer(zero bool) BatchNorm {
	return BatchNorm{ZeroScale: zero, Momentum: n.momentum, Ghost: n.ghost}
}

// check is shared by the Validate methods of models with batch norms.
func (n normed) check() error {
	switch {
	case !(n.momentum >= 0 && n.momentum <= 1):
		return fmt.Errorf(`option "bn_momentum": want 0 to 1, not %g; 0 is the default`, n.momentum)
	case n.ghost < 0:
		return fmt.Errorf(`option "ghost": want 0, which is all of the batch, or the samples that share statistics, not %d`, n.ghost)
	}
	return nil
}
