package sgd

import (
	"cmp"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

// Lookahead lets slow weights φ follow the weights w of an update rule (Zhang et al.
// 2019, "Lookahead optimizer: k steps forward, 1 step back", algorithm 1). Behind every
// k-th update, k being every,
//
//	φ ← φ + a·(w − φ),   w ← φ
//
// Kept is w − φ, the sum of the updates since, and not φ: a share 1 − a of them is
// taken back. With ramp = r above 0 the share taken back grows over the epochs e of the
// run up to over:
//
//	1 − a = (1 − alpha)·min(1, e/over)^r   from epoch start on, 0 before
//
// That is the lookahead of airbench94 (Jordan 2024, arXiv 2404.00498, section 3.4), with
// alpha=0.2262 (1 − 0.95⁵), every=5, ramp=3, start=3 and over=9.9.
//
// Departures: airbench94 counts the ramp by steps, begins φ at the first k-th update of
// epoch 3, looks ahead on batch-norm statistics too, and goes back to φ at the end of
// every epoch. Here statistics stay, and updates behind the last k-th are kept: let the
// run end at a multiple of k.
//
// Tuning: alpha=0.5 and every=5 are the paper's, around any rule that is tuned already.
//
// Cost: four bytes of state an element beside the rule's, one pass.
type Lookahead struct {
	Rule  Optimizer `doc:"the update rule"`
	Every int       `doc:"updates from one look back to the next, k in the paper, at least 1"`
	Alpha float64   `doc:"share of the updates that is kept, more than 0 and at most 1"`
	Ramp  float64   `doc:"power of the progress by which the share taken back grows, at least 0"`
	Start float64   `doc:"epoch from which on some is taken back, at least 0"`
	Over  float64   `doc:"epochs over which ramp grows, more than 0"`
}

var _ = Optimizers.Add("lookahead", "slow weights that follow those of an update rule: every k updates, part of them is taken back",
	Lookahead{Rule: Momentum{Beta: 0.9}, Every: 5, Alpha: 0.5, Over: 1})

// Validate checks the ranges, and that Rule is an update rule.
func (o Lookahead) Validate() error {
	if err := isRule("rule", o.Rule); err != nil {
		return err
	}
	return cmp.Or(
		check(o.Every >= 1, "every", float64(o.Every), "at least 1 update"),
		check(o.Alpha > 0 && o.Alpha <= 1, "alpha", o.Alpha, "more than 0 and at most 1"),
		check(o.Ramp >= 0, "ramp", o.Ramp, "at least 0"),
		check(o.Start >= 0, "start", o.Start, "at least 0"),
		check(o.Over > 0, "over", o.Over, "more than 0"),
	)
}

// NeedsWhole is true if the rule needs whole tensors.
func (o Lookahead) NeedsWhole() bool { return NeedsWhole(o.Rule) }

// Momentous is true but for alpha=1: what is taken back came in earlier updates.
func (o Lookahead) Momentous() bool { return o.Alpha < 1 || HasMomentum(o.Rule) }

// RateInside is true: the updates that are kept have their rates.
func (o Lookahead) RateInside() bool { return true }

// New makes the Transform; its state is the rule's, and the slot "ahead".
func (o Lookahead) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rule, err := o.Rule.New(l)
	if err != nil {
		return nil, err
	}
	t := &lookahead{Lookahead: o, ahead: make([]float32, l.Size())}
	t.local = local{trainable(l), t.step}
	return composed(l, []Transform{rule, t}), nil
}

// lookahead comes behind a rule: u is the rule's update.
type lookahead struct {
	Lookahead
	local
	ahead []float32 // the sum of the updates since the last look back
}

// back is the share that is taken back in a step.
func (t *lookahead) back(s Step) float64 {
	if s.Epoch < t.Start {
		return 0
	}
	return (1 - t.Alpha) * portable.Pow(min(1, s.Epoch/t.Over), t.Ramp)
}

func (t *lookahead) step(u, _ []float32, r Range, s Step) {
	u, ahead := u[r.Lo:r.Hi], t.ahead[r.Lo:r.Hi]
	f32.Add(ahead, u)
	if (s.N+1)%t.Every == 0 {
		f32.Axpy(u, -float32(t.back(s)), ahead)
		clear(ahead)
	}
}

// Slots lists the sum of the updates since the last look back.
func (t *lookahead) Slots() []Slot { return []Slot{{"ahead", t.ahead}} }
