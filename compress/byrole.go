package compress

import "errors"

var _ = Families.Add("byrole", "a codec for each role of a tensor",
	ByRole{Weight: Feedback{In: topKDefault, Decay: 1}, Bias: Raw{}, Norm: Raw{}})

// ByRole picks the codec by what a tensor is for, once, at construction.
//
//	C = weight, bias or norm, by the block's role; tables (role embedding) are weights
//
// Biases and the parameters of normalisations are few and steer much; most
// published runs leave them alone. hivemind's role-adaptive chooser is the
// model. Buffers are no gradients and travel raw whatever the codec.
//
// Paper: none.
//
// Tuning: the defaults.
//
// Cost: none.
type ByRole struct {
	Weight Family `doc:"codec of matrices, filters and tables, and of blocks without a role"`
	Bias   Family `doc:"codec of additive terms"`
	Norm   Family `doc:"codec of scales and shifts of normalisations"`
}

// Inner lists the three codecs.
func (f ByRole) Inner() []Family { return []Family{f.Weight, f.Bias, f.Norm} }

// Validate checks the options.
func (f ByRole) Validate() error {
	if f.Weight == nil || f.Bias == nil || f.Norm == nil {
		return errors.New("want three codecs, weight, bias and norm")
	}
	return nil
}

// Choose returns the codec of block b.
func (f ByRole) Choose(b Block) Family {
	switch b.Role {
	case "bias":
		return f.Bias
	case "norm":
		return f.Norm
	}
	return f.Weight
}

// Claims are those of the codec chosen.
func (f ByRole) Claims(b Block) Claims {
	c, _ := ClaimsOf(f.Choose(b), b)
	return c
}

// New makes the codec chosen.
func (f ByRole) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.Choose(b).New(b)
}
