package mode

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// Late is SGD on parameter servers that make shorter steps by gradients that come late:
//
//	w ← w − rate/√(1+τ)·g
//
// where others made τ updates since g was begun. It takes every policy that lets a
// worker finish its gradient; asp is the plain case, and with bsp nothing is late.
type Late struct{}

var _ = train.Modes.Add("late", "parameter servers that make shorter steps by late gradients", Late{})

// Traits: each push is answered with the next parameters, so workers compute on those.
func (Late) Traits(j *train.Job) train.Traits {
	p := j.PolicyTraits()
	return train.Traits{Servers: max(1, j.Servers), PerUpdate: p.PerUpdate, Timeless: p.Synchronous, Outlives: !p.Synchronous,
		Weightless: true, Steady: true, Codec: train.TakesAll, Down: train.TakesForgetful, Heeds: heeds, Refuses: refuses}
}

var (
	heeds   = []string{"servers", "placement", "policy", "down_codec"}
	refuses = map[string]string{
		"optimizer":  "it has a rule of its own",
		"corrector":  "its rule scales late gradients already",
		"overlap":    "it pushes whole gradients",
		"down_codec": "what a codec leaves out comes with the next difference, and a memory would add it again",
	}
)

// Check refuses policies that cancel gradients, and builds both parts once.
func (Late) Check(j *train.Job) error {
	if j.PolicyTraits().Voids {
		return fmt.Errorf("mode late lets workers finish their gradients, and policy %s cancels them; use asp", staleness.Policies.Spec(j.Policy))
	}
	if _, err := train.Serve(train.NewRank(j, j.Workers), train.Rule{Optimizer: shorter{}}); err != nil {
		return err
	}
	_, err := train.NewLinks(train.NewRank(j, 0))
	return err
}

// Part makes a worker or a server.
func (Late) Part(r *train.Rank) (train.Part, error) {
	if r.ID() >= r.Job().Workers {
		return train.Serve(r, train.Rule{Optimizer: shorter{}})
	}
	l, err := train.NewLinks(r)
	return &worker{l}, err
}

// worker is a worker. It keeps nothing that its Links do not.
type worker struct{ *train.Links }

// Run implements train.Part.
func (w *worker) Run(ctx context.Context) error {
	pass := w.Pass()
	step := []func(context.Context) error{
		func(ctx context.Context) error { return w.Compute(ctx, pass) },
		func(ctx context.Context) error { return w.Push(ctx, uint64(w.Step())) },
		w.Made, w.Await,
		func(ctx context.Context) error { return w.Mark(ctx, w) },
	}
	err := w.Resume(ctx)
	for err == nil && !w.Over() {
		for i := 0; i < len(step) && err == nil; i++ {
			err = step[i](ctx)
		}
	}
	if err == nil {
		err = w.Bye(ctx)
	}
	return err
}

// shorter is the servers' rule, and makes itself around plain descent.
type shorter struct{ sgd.Transform }

func (shorter) New(l sgd.Layout) (sgd.Transform, error) {
	plain, err := sgd.Plain{}.New(l)
	return shorter{plain}, err
}

func (r shorter) Apply(g, params []float32, s sgd.Step) {
	s.LR /= math.Sqrt(1 + float64(s.Delay))
	r.Transform.Apply(g, params, s)
}
