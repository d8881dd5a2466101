package sgd

// Decoupled is weight decay beside an update rule, not through its gradient
// (Loshchilov and Hutter 2019, "Decoupled weight decay regularization"):
//
//	w ← w − rule(g) − lr·rate·w
//
// on tensors of Role Weight or Embedding, or on all trainable ones with all=true (as PyTorch's
// AdamW does unless told otherwise). The decay takes part in the schedule by lr and
// passes through no moment and no norm. AdamW is decoupled(adam), and has a name of
// its own, adamw.
//
// Tuning: rate is that of L2 decay divided by the learning rate where the rule is
// sgd; 0.01 to 0.1 for adam, 3 to 10 times as much for lion.
//
// Cost: the rule's own, and the parameters are read once more.
type Decoupled struct {
	Rule Optimizer `doc:"the update rule"`
	Rate float64   `doc:"share of the weight taken away per unit of learning rate, at least 0"`
	All  bool      `doc:"also decay biases and normalisations"`
}

var _ = Optimizers.Add("decoupled", "an update rule with weight decay beside it", Decoupled{Rule: Momentum{Beta: 0.9}, Rate: 0.01})

// Validate checks the rate and that Rule is an update rule.
func (o Decoupled) Validate() error {
	if err := isRule("rule", o.Rule); err != nil {
		return err
	}
	return check(o.Rate >= 0, "rate", o.Rate, "at least 0")
}

// NeedsWhole is true if the rule needs whole tensors.
func (o Decoupled) NeedsWhole() bool { return NeedsWhole(o.Rule) }

// Momentous is true if the rule keeps a momentum.
func (o Decoupled) Momentous() bool { return HasMomentum(o.Rule) }

// Bare is true if the rule is, and nothing decays.
func (o Decoupled) Bare() bool { return IsBare(o.Rule) && o.Rate == 0 }

// RateInside is true if the rule's state absorbs learning rates.
func (o Decoupled) RateInside() bool { return HasRateInside(o.Rule) }

// New makes the Transform; its state is the rule's.
func (o Decoupled) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rule, err := o.Rule.New(l)
	if err != nil {
		return nil, err
	}
	return composed(l, []Transform{rule, shrink(l, o.Rate, o.All)}), nil
}
