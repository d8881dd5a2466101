package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Sub is a job within a run: workers of it that train one part of the model with each other, in
// a mode of their own, which knows of nobody else. They are the workers 0, 1, … of the job, draw
// the samples of as many workers, and send what they exchange through the run's codec. Their
// passes meet those of other jobs. A job within a run is neither stopped nor saved.
type Sub struct {
	Ranks []int     // of the run, in order
	Part  int       // which part of the model they train; see Partial
	Model sgd.Model // of that part, whose tensors have the names that they have in the run's
	// Mode is one without servers whose workers agree on their parameters.
	Mode Mode
	// Tells says that they tell how far the run is. In a run one job does.
	Tells bool
	// Meet lets a meeting of a pass with others outside the job take place, one that has no
	// sums; it is called by the rank's program, as Pass.Meet is. nil: passes meet nobody there.
	Meet func(ctx context.Context, at int, m sgd.Meeting) error
}

// Partial is implemented by modes whose workers hold parts of the model.
type Partial interface {
	// Parts lists the tensors of each part, which the first rank of its job shows the observer:
	// every tensor of the layout is in one.
	Parts(j *Job) [][]wire.Cut
}

// partsOf are the parts in which workers show a model.
func partsOf(j *Job) []*wire.Shard {
	if p, ok := j.Mode.(Partial); ok {
		return wire.Shards(j.Model.Layout(), p.Parts(j))
	}
	return []*wire.Shard{wire.WholeShard(j.Model.Layout())}
}

// within says of which run a job is, and who its workers are there.
type within struct {
	of *Job
	*Sub
}

// Of makes the part of a rank of the run, which must be one of Ranks. The error says what the job
// cannot be, or is of its mode.
func (s Sub) Of(r *Rank) (Part, error) {
	me := slices.Index(s.Ranks, r.rank)
	switch j := r.job; {
	case me < 0:
		return nil, fmt.Errorf("train: rank %d is none of the ranks %v of a job within the run", r.rank, s.Ranks)
	case j.Elastic:
		return nil, errors.New("elastic=on: workers of a job within a run cannot leave it; set elastic=none")
	case j.CheckpointEvery > 0:
		return nil, errors.New("checkpoint_every: a job within a run keeps no state; set it to 0")
	case s.Meet != nil && j.Plan().Beside:
		return nil, errors.New("overlap: gradients would leave in the middle of a pass that waits for others; use overlap=none")
	}
	type key int // ranks of a process share the job
	j, err := Shared(r.job, key(s.Ranks[0]), func() (*Job, error) { return s.job(r.job) })
	if err != nil {
		return nil, err
	}
	as := NewRank(j, me)
	as.sub, as.times = &s, r.times
	p, err := s.Mode.Part(as)
	return &within1{Part: p, of: r, as: as}, err
}

// job is the job within a run's.
func (s Sub) job(j *Job) (*Job, error) {
	v := *j
	v.Model, v.Mode, v.Workers, v.Here, v.Node = s.Model, s.Mode, len(s.Ranks), min(j.Here, len(s.Ranks)), 0
	v.Stopping, v.Due, v.KeepLast = nil, nil, false
	v.Between = func(worker, step, done, of int) error { return j.between(s.Ranks[worker], step, done, of) }
	if t := v.Traits(); t.Servers > 0 || t.Conduct != NotConducted {
		return nil, fmt.Errorf("mode %s within a run: there must be no servers, and workers must agree on their parameters; use reduce, gather or localsgd", Modes.Spec(s.Mode))
	}
	v.within = &within{j, &s}
	v.Prepare()
	v.cores = coresAt(&v, j.cores.gate.Apart())
	return &v, v.Mode.Check(&v)
}

// within1 is the part of one rank of a job within a run.
type within1 struct {
	Part
	of, as *Rank
}

// Beside says whether an activity beside the one that computes exchanges.
func (p *within1) Beside() bool {
	b, ok := p.Part.(besides)
	return ok && b.Beside()
}

// Run implements Part.
func (p *within1) Run(ctx context.Context) error {
	p.as.h = comm.Among(p.of.h, append(slices.Clone(p.as.sub.Ranks), p.of.job.Observer()))
	err := p.Part.Run(ctx)
	if p.of.step, p.of.stats = p.as.step, p.as.stats; err != nil {
		return fmt.Errorf("part %d of the model: %w", p.as.sub.Part, err)
	}
	return nil
}

// Keep implements Part: it keeps nothing.
func (*within1) Keep(*checkpoint.Keeper) {}
