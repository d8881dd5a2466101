package train

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// store holds a shard's parameters and its part of the optimizer.
type store struct {
	job                *Job
	params             wire.Vector // packed; frames on their way to workers may share it
	sum                wire.Vector // of the gradients of the next update, weighted; empty at first
	only               wire.Vector // in place of sum: a single raw gradient of weight 1
	sole               bool        // but for its frame, nobody else reads it, and it is all of its buffer
	opt                *compute.Stepper
	in                 []*wire.Packer // one decoder per worker; nil: it pushes to somebody else
	sched              lrschedule.Schedule
	rate               float64     // of the next update
	amend              *amending   // nil: the corrector only scales
	sent               *sentCopies // nil: nobody compares with them
	trainable, buffers []sgd.Range
	times              *record.Timer
	gap                record.Gauge
	noise              *compute.Noise  // nil: not measured
	small              compute.Lengths // of the gradients of the next update
	pushes             int             // in it
	one                wire.Vector     // a gradient whose length is taken
	gaps               []float64       // of the next update's gradients
}

func newStore(j *Job, sh *wire.Shard) (*store, error) {
	st := &store{job: j}
	var err error
	if st.sched, err = j.Rates(); err != nil || j.Weightless {
		return st, err
	}
	st.params = wire.NewVector(sh.Size())
	sh.Gather(st.params.F(), j.initial())
	if st.opt, err = compute.NewStepper(j.Optimizer, sh.Layout, par.Threads()); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	st.opt.Avg = j.NewAverage(st.params.F())
	st.rate = st.sched(j.ProgressAt(0, 0))
	st.trainable, st.buffers = compute.ByRole(sh.Layout)
	if st.amend, err = newAmending(j, sh.Layout, false); err != nil {
		return nil, err
	}
	if st.sent, err = newSentCopies(j, st.params); err != nil {
		return nil, err
	}
	tree := j.tree()
	for w := 0; w < j.Workers; w++ {
		var relay *branch
		if tree != nil {
			if !slices.Contains(tree.top, w) {
				st.in = append(st.in, nil)
				continue
			}
			relay = tree.relay(w, servers)
		}
		p, err := j.Content().NewPacker(sh, j.Codec, j.sender(relay, w))
		if err != nil {
			return nil, err
		}
		st.in = append(st.in, p)
	}
	return st, nil
}

func (st *store) Reset() {
	st.sum.Release()
	st.only.Release()
	st.gaps = st.gaps[:0]
}

// Add keeps a first gradient that needs no decoding as it is: often it remains
// the only one.
func (st *store) Add(f comm.Frame, weight float64, past staleness.Past) error {
	if st.job.Weightless {
		return nil
	}
	defer st.times.Decoded(st.times.Start())
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Step)}
	in := st.in[from.Rank]
	if st.job.Gap {
		st.gaps = append(st.gaps, st.distance(f.Header.Version))
	}
	if err := st.noted(in, f.Body, from); err != nil {
		return err
	}
	if st.amend != nil {
		return st.addAmended(f, weight, past, from)
	}
	switch {
	case st.sum.F() == nil && st.only.F() == nil && weight == 1 && in.Raw && len(f.Body) == 4*len(st.params.F()):
		sole := f.Buffer() != nil && f.Buffer().Sole() && len(f.Buffer().B) == len(f.Body)
		if v, ok := wire.Received(f); ok {
			st.only, st.sole = v, sole
			return nil
		}
	case st.only.F() != nil:
		st.copyOnly()
	}
	if st.sum.F() == nil {
		st.sum = wire.NewVector(len(st.params.F()))
		return in.Set(in.Shard.Whole, st.sum.F(), false, float32(weight), f.Body, from)
	}
	return in.AddTo(in.Shard.Whole, st.sum.F(), false, float32(weight), f.Body, from)
}

// copyOnly makes the single gradient the sum.
func (st *store) copyOnly() {
	st.sum = wire.NewVector(len(st.params.F()))
	copy(st.sum.F(), st.only.F())
	st.only.Release()
}

// gradient is the sum, with the reference that was the store's. Nobody else
// reads it, but for the frame of a gradient that is the only one.
func (st *store) gradient() (g wire.Vector) {
	if st.only.F() != nil && !st.sole {
		st.copyOnly()
	}
	if st.only.F() != nil {
		g, st.only = st.only, g
	} else {
		g, st.sum = st.sum, g
	}
	return g
}

// Step makes the update in the memory of the gradient. Where others read the
// parameters, as they were or are on their way to workers, the new ones come to
// lie there too; else they take the place of the old.
func (st *store) Step(u ps.Update) error {
	if st.job.Weightless {
		return nil
	}
	defer st.times.Updated(st.times.Start())
	grad := st.gradient()
	if u.Delay > 0 {
		st.calm(grad.F(), u.Delay)
	}
	st.notedMean(grad.F(), u.Version)
	p := st.job.ProgressAt(u.Version, (u.Taken-u.Pushes)*st.job.perPush())
	s := sgd.Step{N: u.Version, Epoch: p.Epoch, LR: st.sched(p), Delay: u.Delay, Seed: st.job.Seed}
	if st.params.Shared() {
		st.opt.Renew(grad.F(), st.params.F(), s)
		grad, st.params = st.params, grad
	} else {
		st.opt.Advance(grad.F(), st.params.F(), s)
	}
	grad.Release()
	for _, x := range st.gaps {
		st.gap.Add(x)
	}
	st.Reset()
	st.rate = st.sched(st.job.ProgressAt(u.Version+1, u.Taken*st.job.perPush()))
	st.moved()
	return nil
}

// calm shares what late workers say of buffers out among as many as said it: each
// tells how far the statistics were from those of its batch when it began, and if
// τ of them, one behind the other, moved the whole way, they would swing.
func (st *store) calm(grad []float32, delay int) {
	for _, b := range st.buffers {
		f32.Scale(grad[b.Lo:b.Hi], 1/float32(1+delay))
	}
}

// noted has a shard note the gradient of a worker.
func (st *store) noted(in *wire.Packer, body []byte, from compress.From) error {
	if st.noise == nil {
		return nil
	}
	if st.one.F() == nil {
		st.one = wire.NewVector(len(st.params.F()))
	}
	if err := in.Set(in.Shard.Whole, st.one.F(), false, 1, body, from); err != nil {
		return err
	}
	st.small.Square += compute.SquareOver(st.one.F(), st.trainable)
	st.pushes++
	return nil
}

// notedMean ends an update's part in the noise scale: grad is the mean of the pushes.
func (st *store) notedMean(grad []float32, version int) {
	if st.noise == nil || st.pushes == 0 {
		return
	}
	n, b := float64(st.pushes), float64(st.job.BatchAt(version))
	st.noise.Add(compute.Lengths{Square: st.small.Square / n, Inverse: 1 / b}, compute.Lengths{Square: compute.SquareOver(grad, st.trainable), Inverse: 1 / (n * b)})
	st.small, st.pushes = compute.Lengths{}, 0
}
