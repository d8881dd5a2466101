package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
)

// Spec is a model's options. New builds the model for samples of a form, or says what does
// not fit.
type Spec interface {
	New(in sgd.Sample) (sgd.Model, error)
}

// Models is the zoo: every model by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Models = registry.New[Spec]("model")

// checkSmoothing is shared by the Validate methods of the zoo.
func checkSmoothing(s float64) error {
	if !(s >= 0 && s < 1) {
		return fmt.Errorf("smoothing must be in [0, 1), not %g", s)
	}
	return nil
}

// checkDropout is shared likewise.
func checkDropout(rate float64) error {
	if !(rate >= 0 && rate < 1) {
		return fmt.Errorf("dropout must be in [0, 1), not %g", rate)
	}
	return nil
}

// checkSide names the least input a model can work on.
func checkSide(model string, in sgd.Sample, least int) error {
	if in.H < least || in.W < least {
		return fmt.Errorf("nn: %s needs inputs of at least %dx%d, not %dx%d", model, least, least, in.H, in.W)
	}
	return nil
}
