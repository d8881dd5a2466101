package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Sub is a job within a run: workers of it that train one part of the model with each other, in
// a mode of their own, which knows of nobody else. They are the workers 0, 1, … of the job, draw
// the samples of as many workers, and send what they exchange through the run's codec. Their
// passes meet those of other jobs. The jobs of a run stop, and keep their states, behind the same
// steps.
type Sub struct {
	Ranks []int // of the run, in order
	// Firsts lists the first rank of the job of each part of the model, in the order of
	// Partial.Parts: the same for all jobs of a run. That of the last part tells how far the run
	// is, and decides when it stops.
	Firsts []int
	Model  sgd.Model // of the part, whose tensors have the names that they have in the run's
	// Mode is one without servers whose workers agree on their parameters. Those of all parts
	// have rounds of as many steps, behind which they ask each other whether to stop.
	Mode Mode
	// Meet lets a meeting of a pass with others outside the job take place, one that has no
	// sums; it is called by the rank's program, as Pass.Meet is. nil: passes meet nobody there.
	Meet func(ctx context.Context, at int, m sgd.Meeting) error
}

// Partial is implemented by modes whose workers hold parts of the model.
type Partial interface {
	// Parts lists the tensors of each part, in the order in which they are in the layout of its
	// Sub.Model. Every tensor of the run's is in one.
	Parts(j *Job) [][]wire.Cut
}

// partsOf are the parts in which workers hold a model.
func partsOf(j *Job) []*wire.Shard {
	if p, ok := j.Mode.(Partial); ok {
		return wire.Shards(j.Model.Layout(), p.Parts(j))
	}
	return []*wire.Shard{wire.WholeShard(j.Model.Layout())}
}

// Of makes the part of a rank of the run, which must be one of Ranks. The error says what the job
// cannot be, or is of its mode.
func (s Sub) Of(r *Rank) (Part, error) {
	me := slices.Index(s.Ranks, r.rank)
	switch j := r.job; {
	case me < 0 || !slices.Contains(s.Firsts, s.Ranks[0]):
		return nil, fmt.Errorf("train: rank %d is to be one of the ranks %v of a job within the run, and the first of these one of %v", r.rank, s.Ranks, s.Firsts)
	case j.Elastic:
		return nil, errors.New("elastic=on: workers of a job within a run cannot leave it; set elastic=none")
	case s.Meet != nil && j.Plan().Beside:
		return nil, errors.New("overlap: gradients would leave in the middle of a pass that waits for others; use overlap=none")
	}
	type key int // ranks of a process share the job
	j, err := Shared(r.job, key(s.Ranks[0]), func() (*Job, error) { return s.job(r.job) })
	if err != nil {
		return nil, err
	}
	w := &within{Sub: s, of: r, as: NewRank(j, me), part: slices.Index(s.Firsts, s.Ranks[0])}
	w.as.sub, w.as.times = w, r.times
	w.Part, err = s.Mode.Part(w.as)
	return w, err
}

// job is the job within a run's.
func (s Sub) job(j *Job) (*Job, error) {
	v := *j
	v.Model, v.Mode, v.Workers, v.Here, v.Node = s.Model, s.Mode, len(s.Ranks), min(j.Here, len(s.Ranks)), 0
	v.Between = func(worker, step, done, of int) error { return j.between(s.Ranks[worker], step, done, of) }
	v.Stopping = j.IsStopping
	if t := v.Traits(); t.Servers > 0 || t.Conduct != NotConducted {
		return nil, fmt.Errorf("mode %s within a run: there must be no servers, and workers must agree on their parameters; use reduce, gather or localsgd", Modes.Spec(s.Mode))
	}
	v.places = func(worker int) (first, last int) { return j.device(s.Ranks[worker]) }
	v.Prepare()
	v.cores = coresAt(&v, j.cores.gate.Apart())
	return &v, v.Mode.Check(&v)
}

// within is the part of one rank of a job within a run: of in the run, as in the job.
type within struct {
	Part
	Sub
	of, as *Rank
	part   int // of the model
}

// leads says whether the job is that of the last part.
func (w *within) leads() bool { return w.part == len(w.Firsts)-1 }

// Beside says whether an activity beside the one that computes exchanges.
func (w *within) Beside() bool {
	b, ok := w.Part.(besides)
	return ok && b.Beside()
}

// Run implements Part.
func (w *within) Run(ctx context.Context) error {
	w.as.h = comm.Among(w.of.h, append(slices.Clone(w.Ranks), w.of.job.Observer()))
	err := w.Part.Run(ctx)
	if w.of.step, w.of.stats = w.as.step, w.as.stats; err != nil {
		return fmt.Errorf("part %d of the model: %w", w.part, err)
	}
	return nil
}

// asks is Rank.Asks of a first rank: that of the last part decides, and the others hear of it.
func (w *within) asks(ctx context.Context, from, to int) (flags message.Flags, err error) {
	last := len(w.Firsts) - 1
	if !w.leads() {
		said, flags, err := onAsk.Hear(ctx, w.of, w.Firsts[last])
		if err == nil && said.N != from {
			err = fmt.Errorf("the job of part %d asks at step %d, and that of part %d at step %d: their modes must ask alike", w.part, from, last, said.N)
		}
		return flags, err
	}
	flags, err = asks(w.as, from, to)
	for _, first := range w.Firsts[:last] {
		if err == nil {
			err = onAsk.Send(ctx, w.of, first, message.Count{N: from}, flags)
		}
	}
	return flags, err
}

// named is a state of the rank as the run names it: what the last part tells of it alone is of
// the run.
func (w *within) named(st *checkpoint.State) *checkpoint.State {
	if !w.leads() {
		delete(st.Bytes, keyMeter)
	}
	st = st.Renamed(w.as.rank, w.of.rank)
	st.Ints[keyPart] = int64(w.part)
	return st
}

// Keep implements Part. States are saved by the job's rank.
func (w *within) Keep(k *checkpoint.Keeper) {
	if !k.Loads() {
		return
	}
	whole, part := w.of.job.Model.Layout().Size(), partsOf(w.of.job)[w.part]
	own := checkpoint.Loading(k.Of.Renamed(w.of.rank, w.as.rank).Mapped(func(v []float32) []float32 {
		if len(v) != whole {
			return v
		}
		packed := make([]float32, part.Size())
		part.Gather(packed, v)
		return packed
	}))
	w.Part.Keep(own)
	k.Fail(own.Err())
	w.as.start, w.as.earlier = own.Of, w.as.step
	w.of.step = w.as.step
}
