package sgdtest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

// odd is a net one of whose claims about files is wrong.
type odd struct {
	*nn.Net
	how string
}

func (o odd) Weights(params []float32) ([]byte, error) {
	if o.how == "drops a value" {
		params = append([]float32{0}, params[1:]...)
	}
	return o.Net.Weights(params)
}

func (o odd) SetWeights(params []float32, file []byte) error {
	switch err := o.Net.SetWeights(params, file); {
	case o.how == "takes all":
		return nil
	case o.how == "spoils" && err != nil:
		clear(params)
		return errors.New("no")
	default:
		return err
	}
}

func (o odd) From(file []byte) (sgd.Model, error) {
	from, err := o.Net.From(file)
	if o.how == "begins anew" && err == nil {
		return o.Net, nil
	}
	return from, err
}

func TestPortableFindsMistakes(t *testing.T) {
	t.Parallel()
	m, err := nn.Models.MustParse("mlp(hidden=[3])").New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 5}, Classes: 4})
	if err != nil {
		t.Fatal(err)
	}
	for how, want := range map[string]string{"": "", "drops a value": "value 0 is 0", "takes all": "is taken", "spoils": "was refused, and", "begins anew": "begun with a file, seed 0"} {
		err := sgdtest.Portable(odd{m.(*nn.Net), how})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", how, err, want)
		}
	}
	if err := sgdtest.Portable(lying{m}); err != nil {
		t.Errorf("a model without the claim: %v", err)
	}
}
