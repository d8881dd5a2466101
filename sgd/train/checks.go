package train

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// checkNoise refuses to measure where there are no two batch sizes to compare.
func (j *Job) checkNoise() error {
	if !j.NoiseScale || j.Weightless {
		return nil
	}
	t, mode := j.Traits(), Modes.Spec(j.Mode)
	served := t.Servers > 0 && j.synchronous() && t.PerPush == 0 && t.Tree == 0 && !t.Beside && !t.Coordinator
	switch {
	case !t.Sums && !served:
		return fmt.Errorf("noise_scale: mode %s with this policy makes no mean of all workers' gradients, with which one worker's could be compared; use mode=reduce, or mode=server policy=bsp", mode)
	case t.Sums && j.Workers*max(1, j.Accumulate) == 1, !t.Sums && j.Workers == 1:
		return errors.New("noise_scale compares gradients of two batch sizes, and there is one; use several workers, or in mode reduce accumulate=2")
	case !wire.IsCast(j.Codec):
		return fmt.Errorf("noise_scale: the mean that there is is of what codec %s leaves of gradients; use raw, fp16, bf16 or another cast", compress.Spec(j.Codec))
	}
	return nil
}

// checkNorms refuses groups of workers whose batch norms could not be joint.
func (j *Job) checkNorms() error {
	n := j.NormWorkers()
	if n == 1 {
		return nil
	}
	switch {
	case n > j.Workers || j.Workers%n != 0:
		return fmt.Errorf("bn_group=%d: %d workers cannot be cut into groups of as many; want a divisor of workers, or 0 for all", j.NormGroup, j.Workers)
	case !j.Traits().Sums:
		return fmt.Errorf("bn_group: batch norms meet in the middle of passes, and in mode %s passes of a step do not go together; use mode=reduce, or bn_group=1", Modes.Spec(j.Mode))
	case j.Plan().Beside:
		return errors.New("bn_group: with overlap gradients leave in the middle of a pass that waits for the statistics of others; use overlap=none, or bn_group=1")
	case len(meetingsOf(j.Model, 1)) == 0:
		return errors.New("bn_group: the model has no batch norm whose statistics workers could share: none at all, or ghost batches, which are each worker's own; use bn_group=1")
	}
	return nil
}

// checkWeightless refuses what needs weights.
func (j *Job) checkWeightless() error {
	switch {
	case !j.Weightless:
		return nil
	case j.Sizes == nil && j.CheckpointEvery > 0:
		return errors.New("checkpoint_every: a run without weights has no state to keep; set it to 0")
	case j.Sizes == nil && j.EvalEvery > 0:
		return errors.New("eval_every: a run without weights learns nothing; set it to 0")
	case j.Traits().Weightless:
		return nil
	}
	var names []string
	for _, name := range Modes.Names() {
		if m, err := Modes.Parse(name); err == nil && m.Traits(j).Weightless {
			names = append(names, name)
		}
	}
	return fmt.Errorf("mode %s computes with its parameters; without weights there are modes %s", Modes.Spec(j.Mode), strings.Join(names, ", "))
}

// NormWorkers is how many workers share the statistics of batch norms, at least 1.
func (j *Job) NormWorkers() int { return max(1, j.NormGroup) }

// checkServerless refuses what only servers give a meaning, in modes that have
// none: runs that differ in nothing else would be the same run under two names.
func (j *Job) checkServerless() error {
	if j.Served() {
		return nil
	}
	mode := Modes.Spec(j.Mode)
	if j.Policy != nil && !j.synchronous() {
		return fmt.Errorf("policy %s says when servers apply a gradient and answer, and mode %s has no servers; set policy=bsp, or use mode server, rudra, downpour or easgd", staleness.Policies.Spec(j.Policy), mode)
	}
	if !j.corrector().None {
		return fmt.Errorf("corrector %s is what servers do to late gradients, and mode %s has no servers; set corrector=none, or use mode server, rudra or downpour", staleness.Correctors.Spec(j.Corrector), mode)
	}
	if j.DownCodec != nil && !compress.Plain(j.DownCodec) {
		return fmt.Errorf("down_codec %s encodes parameters on their way from servers, and mode %s has no servers; set down_codec=raw (codec is for what workers send), or use mode server, rudra, downpour, easgd or sandblaster", compress.Families.Spec(j.DownCodec), mode)
	}
	if j.Gap {
		return fmt.Errorf("observe=gap lets servers measure how far the parameters have moved, and mode %s has no servers; take gap out of observe, or use mode server or downpour", mode)
	}
	if j.LogOrder {
		return fmt.Errorf("observe=order_log keeps the order in which words reach servers, and mode %s has no servers; take order_log out of observe, or use mode server or downpour", mode)
	}
	return nil
}

// checkOverlap refuses an Overlap that the mode does not go by, and too many pieces.
func (j *Job) checkOverlap() error {
	if v, ok := j.Overlap.(registry.Validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("overlap: %w", err)
		}
	}
	p, t, size := j.Plan(), j.Traits(), j.Model.Layout().Size()
	switch {
	case t.Servers > 0 && (p.Cycle > 0 || p.First || p.Partition > 0):
		return fmt.Errorf("overlap %s: fusion, priority and partition are for modes reduce and gather; with servers use overlap=buckets, and placement=balanced to cut tensors", Overlaps.Spec(j.Overlap))
	case t.Servers > 0 && p.Beside && t.PerPush > 0 && p.Bytes != bucketBytes:
		return fmt.Errorf("overlap: bytes are of parts of pushes, and mode %s pushes all that a server has at once; leave them out", Modes.Spec(j.Mode))
	case p.Partition > 0 && size/(p.Partition/4) > mostPieces:
		return fmt.Errorf("overlap: partition of %d bytes would cut %d values in more than %d pieces; want at least %d", p.Partition, size, mostPieces, 4*(size/mostPieces+1))
	}
	return nil
}
