// Package train is the engine: the only place where models, codecs, policies,
// collectives and optimizers meet. A Job says what to train; a Mode turns it
// into one program per rank, which runs unchanged on every comm.Net.
//
// Ranks 0 … Workers−1 are workers, the next Servers ranks are parameter-server
// shards (modes that have servers), and the last rank is the observer: it
// evaluates snapshots, collects reports and writes checkpoints, and is billed
// to nobody.
package train

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// Job is one training run, resolved: every choice made.
type Job struct {
	Model     sgd.Model
	Data      sgd.Dataset
	Optimizer sgd.Optimizer
	Schedule  lrschedule.Spec
	Codec     compress.Family // gradients, worker to server or among workers
	DownCodec compress.Family // parameters, server to worker
	Mode      Mode
	Policy    staleness.Spec
	Corrector staleness.Corrector
	Topology  collective.Topology
	Outer     sgd.Optimizer    // localsgd: rule of the pseudo-gradients; nil: plain
	Graph     collective.Graph // who talks to whom in the modes that gossip
	Placement ps.Placement

	Workers int
	Servers int // shards, one a rank; modes without servers ignore it
	Node    int // successive workers that share a node, for topologies that care; 0: nobody knows
	Batch   int // samples per worker and step
	Updates int // planned number of updates of the parameters
	Seed    uint64

	// Batches says how the batch changes over the run, in multiples of Batch, which is
	// the first one; nil: not at all. Runs in step only. Rates are those of the first.
	Batches lrschedule.BatchSpec
	// Sides says how the side of training pictures changes over the run; nil: not at all,
	// they have the size of the data set, as evaluations always do. Where workers do not
	// step together a worker goes by its own steps.
	Sides lrschedule.SideSpec

	// Accumulate is in how many micro-batches a worker computes its Batch, one behind
	// the other: activations take the memory of one of them. Their gradients are added
	// up in order, each by its share of the samples, so the sum is the gradient of the
	// batch up to rounding. A batch norm sees a micro-batch, as if each were a worker's.
	// Where the batch grows there are more of them, of the same size. 0 is 1: all of
	// Batch at once.
	Accumulate int

	// EMA is the decay of a moving average of the parameters, at least 0 and below 1,
	// that takes every EMAEvery-th update in (0 is 1); see average. It is evaluated, and
	// is the parameters at the end; training goes on from the parameters themselves, and
	// checkpoints hold both. 0: there is none.
	EMA      float64
	EMAEvery int

	// NormGroup is how many successive workers share the statistics of their batch norms,
	// as one worker on the union of their batches: a divisor of Workers. 0 or 1: none do.
	NormGroup int

	EvalEvery int // updates between evaluations; 0: only at the end
	// Until ends the run at the first evaluation that reaches it: its
	// result is that of this evaluation. None: it makes all its updates.
	Until     record.Goal
	EvalBatch int // samples a piece in evaluations; 0: 500

	// Threads is how many goroutines one worker's pass may use, and so bounds
	// how many passes compute at once; 0: passes share the cores, and one that
	// is alone has them all. Here is the number of workers whose passes run in
	// this process; 0: all.
	Threads, Here int

	// Overlap says how gradients leave during the backward pass and parameters arrive
	// during the forward pass; nil: they do not.
	Overlap Overlap
	// NonFinite says what happens to a gradient with NaN or Inf: "fail" ends
	// the run with the step and tensor named, "zero" counts it and contributes
	// nothing; with Overlap, nothing for the spans that have them.
	NonFinite string
	// CheckpointEvery is the number of worker steps between checkpoints; 0: when
	// stopped, and when Due says so. Asynchronous modes drain at these marks,
	// stopped or not, so that a resumed run repeats an unstopped one. See StopRule.
	CheckpointEvery int

	// NoiseScale measures the gradient noise scale (McCandlish et al. 2018, appendix
	// A.1) of runs that make means of all workers' gradients: see Progress.NoiseScale. It
	// costs a look at one worker's gradients, or with servers at all, and at the means.
	NoiseScale bool

	// Gap lets servers measure how far the parameters have moved since a gradient
	// was made; it costs a copy of them an update.
	Gap bool
	// LogOrder lets servers tell the order in which pushes and pulls reach them.
	// Replay makes them keep to such an order, shard by shard: nil for none.
	LogOrder bool
	Replay   [][]Arrival

	Timing timing.Timing
	// Weightless runs compute nothing: frames have the exact size of what they
	// would carry, and nothing in them. Only time and bytes come of it. The model is
	// asked for its layout and operations, and the data for how many samples there are.
	Weightless bool
	// Sizes is where a run with weights notes the sizes of payloads that depend on its
	// data; nil: nowhere. A weightless run with the Sizes of a run of the same trajectory
	// (see Timeless) is that run on other networks and devices: it sends what that sent,
	// is evaluated and rests at marks where that was, and learns nothing.
	Sizes *wire.Sizes

	Run         uint64      // identity of the run, carried by every frame
	Incarnation uint32      // of this process's ranks
	Stopping    func() bool // polled by servers and by rank 0; nil: never
	// Between is called before each pass of a worker's step: of the step's micro-batches,
	// done are made. Workers call it at the same time. An error breaks the step off and ends
	// the run. nil: never.
	Between func(worker, step, done, of int) error
	// Due asks for a checkpoint now and then, where CheckpointEvery is 0. It is
	// polled as Stopping is, and heeded where a checkpoint changes nothing: by runs
	// in step, and by all on real clocks. nil: never.
	Due func() bool

	// KeepLast asks for a checkpoint just before the end, as Due does, of runs in step.
	KeepLast bool

	// Elastic runs go on when workers leave them: the step in flight is void, and those
	// who stay make it again by themselves; see Membership. They end with fewer than
	// MinWorkers (0 is 1). OnResize says what becomes of batch and learning rate. Leaves
	// lists who goes by plan, as if it died just before it made a step, and Joins who
	// comes, or comes back; each in order of steps. Where nobody waits for all, workers come
	// and go by themselves (Traits.Admits), and a step is an update.
	Elastic    bool
	MinWorkers int
	OnResize   OnResize
	Leaves     []Departure
	Joins      []Joining

	joined *joined                            // the epoch of membership that this is the job of; nil: the run's
	places func(worker int) (first, last int) // see device; of a job within a run

	replayed map[[2]int]struct{} // worker and step of the pushes in Replay

	reached *atomic.Bool // an evaluation was at Until
	asked   *atomic.Bool // Stopping has said so

	batches batches // where the batch changes; see Prepare

	cores   *cores
	own     sized          // the model at the data set's size; see Prepare
	smaller map[int]*sized // and at the other sides of its pictures
}

// World is the number of ranks that train, the observer left out.
func (j *Job) World() int { return j.Workers + j.Traits().Servers }

// Observer is the rank of the observer.
func (j *Job) Observer() int { return j.World() }

// numShards is the number of ranks that hold a shard of the parameters.
func (j *Job) numShards() int {
	t := j.Traits()
	if t.Coordinator {
		return t.Servers - 1
	}
	return t.Servers
}

// Cuts are the pieces of tensors that the job's codecs are given, by server; in
// modes without, one list.
func (j *Job) Cuts() [][]wire.Cut {
	l, partition := j.Model.Layout(), j.Plan().Partition
	switch n := j.numShards(); {
	case n > 0:
		return wire.Cuts(l, j.Placement, n, j.Codec, j.DownCodec)
	case partition > 0:
		return wire.Cuts(l, partitioned(partition/4), 1, j.Codec)
	}
	return wire.Cuts(l, ps.RoundRobin{}, 1)
}

// Plan is what the job's Overlap comes to.
func (j *Job) Plan() Plan { return cmp.Or[Overlap](j.Overlap, Behind{}).Plan() }

// Coordinator is the rank behind the servers that hold shards; see Traits.Coordinator.
func (j *Job) Coordinator() int { return j.Workers + j.numShards() }

// Stamp implements message.Origin.
func (j *Job) Stamp() comm.Header { return comm.Header{Run: j.Run, Incarnation: j.Incarnation} }

// RankName words what a rank is: worker 2, server 0, coordinator, observer.
func (j *Job) RankName(rank int) string {
	switch {
	case rank < j.Workers:
		rank, _ = j.device(rank)
		return fmt.Sprintf("worker %d", rank)
	case rank < j.Coordinator():
		return fmt.Sprintf("server %d", rank-j.Workers)
	case rank < j.World():
		return "coordinator"
	}
	return "observer"
}

// Samples is the number of samples in one update, the first if the batch changes.
func (j *Job) Samples() int { return j.PerUpdate() * j.Batch }

// Check refuses a job that cannot run, with the reason.
func (j *Job) Check() error {
	switch {
	case j.Workers < 1:
		return fmt.Errorf("workers is %d, want at least 1", j.Workers)
	case j.Batch < 1:
		return fmt.Errorf("batch is %d, want at least 1", j.Batch)
	case j.Accumulate < 0 || j.Accumulate > j.Batch:
		return fmt.Errorf("accumulate=%d cuts the %d samples of a worker's step into micro-batches of at least one sample: want 1 to %d, or a larger batch", j.Accumulate, j.Batch, j.Batch)
	case j.Updates < 1:
		return fmt.Errorf("steps is %d, want at least 1", j.Updates)
	case j.NonFinite != "" && j.NonFinite != "fail" && j.NonFinite != "zero":
		return fmt.Errorf("nonfinite is %q, want fail or zero", j.NonFinite)
	}
	if err := checkMetrics(j); err != nil {
		return err
	}
	if _, err := j.Rates(); err != nil {
		return err
	}
	if err := j.checkServerless(); err != nil {
		return err
	}
	if err := j.checkTraits(); err != nil {
		return err
	}
	if err := j.checkGroup(); err != nil {
		return err
	}
	if err := j.checkBatches(); err != nil {
		return err
	}
	if err := j.checkSides(); err != nil {
		return err
	}
	if err := j.probe(); err != nil {
		return err
	}
	if err := j.checkWeightless(); err != nil {
		return err
	}
	if err := j.checkOverlap(); err != nil {
		return err
	}
	if err := j.checkNoise(); err != nil {
		return err
	}
	if err := j.checkNorms(); err != nil {
		return err
	}
	if err := j.checkAverage(); err != nil {
		return err
	}
	if err := j.checkElastic(); err != nil {
		return err
	}
	return j.Mode.Check(j.unstarted())
}

// unstarted is the job with zeros for its initial parameters: to see whether its parts
// can be made nobody need draw them, which takes seconds for a large model.
func (j *Job) unstarted() *Job {
	if j.cores == nil || j.Weightless {
		return j
	}
	u := *j
	u.cores = newCores(&u)
	u.cores.start = make([]float32, j.Model.Layout().Size())
	return &u
}

// Programs makes the programs of all ranks; obs is the observer's.
func (j *Job) Programs(obs *Observer) ([]comm.Program, error) {
	var ps []comm.Program
	for r := 0; r < j.World(); r++ {
		p, err := j.Program(r)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return append(ps, obs.Program), nil
}

// Program is what a rank that trains does, of World.
func (j *Job) Program(rank int) (comm.Program, error) {
	r := NewRank(j, rank)
	p, err := j.Mode.Part(r)
	if err != nil {
		return nil, err
	}
	switch {
	case j.inEpochs():
		return func(ctx context.Context, h comm.Host) error { return newMember(j, rank).run(ctx, h) }, nil
	case j.open(): // another process may begin with nothing of what this one had
		return func(ctx context.Context, h comm.Host) error {
			r := NewRank(j, rank)
			p, err := j.Mode.Part(r)
			if err != nil {
				return err
			}
			return r.run(ctx, h, p)
		}, nil
	}
	return func(ctx context.Context, h comm.Host) error { return r.run(ctx, h, p) }, nil
}

// Prepare must be called before the programs of a run are made, and again before
// those of another run.
func (j *Job) Prepare() {
	j.cores, j.reached, j.asked = newCores(j), new(atomic.Bool), new(atomic.Bool)
	j.index()
	_, _ = j.PlanBatches(), j.planSides() // Check tells what is wrong
}

// Rates makes the learning rates of the run, as they depend on its progress.
func (j *Job) Rates() (lrschedule.Schedule, error) {
	if j.joined != nil {
		return j.joined.scaled()
	}
	r := j.run()
	if j.batches != nil {
		r.Epochs = float64(j.Drawn(j.Updates)) / float64(j.Data.Train.Len())
	}
	return j.Schedule.New(r)
}

// run is what schedules may know of the run, as its first batch makes it.
func (j *Job) run() lrschedule.Run {
	per := j.Samples()
	spe := float64(j.Data.Train.Len()) / float64(per)
	return lrschedule.Run{Batch: per, StepsPerEpoch: spe, Steps: j.Updates, Epochs: float64(j.Updates) / spe}
}

// ProgressAt is that of a run in which gradients of that many batches have gone into
// version updates.
func (j *Job) ProgressAt(version, batches int) lrschedule.Progress {
	samples := j.drawn(batches)
	return lrschedule.Progress{
		Step: version, Total: j.Updates, Samples: samples,
		Epoch: float64(samples) / float64(j.Data.Train.Len()),
	}
}

// perPush is the number of batches in one push.
func (j *Job) perPush() int { return max(1, j.Traits().PerPush) }

// ProgressOf is the progress of a run whose workers have made step steps each.
func (j *Job) ProgressOf(step int) lrschedule.Progress {
	batches := step * j.Workers
	return j.ProgressAt(batches/j.PerUpdate(), batches)
}

// IsStopping says whether the run is to stop: it was asked to, or has come to Until.
func (j *Job) IsStopping() bool {
	if j.isReached() {
		return true
	}
	if j.Stopping == nil || !j.Stopping() {
		return false
	}
	if j.asked != nil {
		j.asked.Store(true)
	}
	return true
}

// isReached says whether an evaluation in this process has come to Until.
func (j *Job) isReached() bool { return j.reached != nil && j.reached.Load() }

// draw addresses the batch of a worker's step: the same in every mode and
// place.
func (j *Job) draw(worker, step int) sgd.Draw {
	d := sgd.Draw{First: j.drawn(step*j.Workers + worker), N: j.BatchAt(step), Side: j.Side(step)}
	if j.joined != nil {
		d.N = j.joined.share(worker)
	}
	return d
}

func (j *Job) synchronous() bool { return j.policy().Synchronous }
