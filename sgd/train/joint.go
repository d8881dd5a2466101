package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// Batch norms over several workers. A pass then stops at every batch norm, ahead and
// back, until the sums of all workers of its group are there (sgd.Pass.Sum). It is
// computed by a goroutine that hands its sums to the rank's program, which exchanges
// them and lets it go on. So sums travel as all else does, and are billed. Sums of
// float64 are gathered and added up in the order of ranks: the bits are the same on all.

// normWorkers is how many workers share the statistics of batch norms, at least 1.
func (j *Job) normWorkers() int { return max(1, j.NormGroup) }

// joint makes the passes of a rank whose batch norms are those of a group.
type joint struct {
	*reducer
	group collective.Group
	desk  *compute.Desk

	asks  chan []float64 // the pass waits for these to be sums
	goOn  chan error     // they are, or never will be
	ended chan error     // the pass
}

// newJoint is nil where every worker has statistics of its own.
func newJoint(r *reducer) *joint {
	n := r.job.normWorkers()
	if n == 1 {
		return nil
	}
	j := &joint{reducer: r, asks: make(chan []float64), goOn: make(chan error), ended: make(chan error, 1)}
	first := r.rank / n * n
	j.group.Me = r.rank - first
	for i := range n {
		j.group.Ranks = append(j.group.Ranks, first+i)
	}
	return j
}

// sum is what the model calls.
func (j *joint) sum(_ int, v []float64) error {
	j.asks <- v
	return <-j.goOn
}

// make makes the gradient and begins its exchange, as reducer.make and pass do.
func (j *joint) make(ctx context.Context, total, coding time.Duration) error {
	if j.desk == nil && !j.job.Weightless {
		j.desk = j.seat.take()
		j.job.cores.gate.Leave()
		j.desk.Sum = j.sum
	}
	samples := j.job.draw(j.rank, j.step)
	micros, sums := j.job.micros(samples), sumsOf(j.job.Model)
	stops := micros * len(sums)
	began := j.times.Read()
	pass := func() { j.ended <- j.differentiate(ctx, j.desk, j.on, nil, nil) }
	if j.job.Weightless {
		pass = func() { j.ended <- j.rehearse(micros, sums) }
	}
	var asked []float64
	var over, started bool
	var failed error
	stretch := comm.Work{Cost: []time.Duration{total / time.Duration(stops+1)}, Run: func(func(int) error) error {
		j.job.cores.gate.Enter()
		defer j.job.cores.gate.Leave()
		if started {
			j.goOn <- nil
		} else {
			started = true
			go pass()
		}
		select {
		case asked = <-j.asks:
		case failed = <-j.ended:
			over = true
		}
		return failed
	}}
	for at := 0; ; at++ {
		if err := j.h.Do(ctx, stretch); err != nil {
			return j.giveUp(started && !over, err)
		}
		if over {
			break
		}
		if err := j.exchangeSums(ctx, asked, at); err != nil {
			return j.giveUp(true, fmt.Errorf("worker %d, step %d, statistics of a batch norm: %w", j.rank, j.step, err))
		}
	}
	if err := j.h.Do(ctx, comm.Work{Cost: []time.Duration{coding}, Run: func(func(int) error) error { return j.content.begin(0) }}); err != nil {
		return err
	}
	j.batch = samples.N
	j.times.Price(coding)
	j.times.Computed(began)
	return nil
}

// rehearse stops where passes over micro-batches do, with sums of nothing.
func (j *joint) rehearse(micros int, sums []int) error {
	for range micros {
		for i, n := range sums {
			if err := j.sum(i, make([]float64, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumsOf lists the sums that passes of a model make with others'.
func sumsOf(m sgd.Model) []int {
	if joint, ok := m.(sgd.Joint); ok {
		return joint.Sums()
	}
	return nil
}

// giveUp ends a pass that waits for sums.
func (j *joint) giveUp(waits bool, err error) error {
	if waits {
		for {
			select {
			case <-j.asks:
			case j.goOn <- err:
			case <-j.ended:
				return err
			}
		}
	}
	return err
}

// exchangeSums makes of v the sums of the group's.
func (j *joint) exchangeSums(ctx context.Context, v []float64, at int) error {
	own := comm.NewBuffer(8 * len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint64(own.B[8*i:], math.Float64bits(x))
	}
	parts, _, release, err := collective.AllGather(ctx, j.h, j.group, onNorm.Header(j.job, stepsWord{j.step}, 0), own)
	defer release()
	if err != nil {
		return err
	}
	clear(v)
	for rank, b := range parts {
		if len(b) != 8*len(v) {
			return fmt.Errorf("sum %d of rank %d has %d bytes, want %d", at, j.group.Ranks[rank], len(b), 8*len(v))
		}
		for i := range v {
			v[i] += math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return nil
}

// checkNorms refuses groups of workers whose batch norms could not be joint.
func (j *Job) checkNorms() error {
	n := j.normWorkers()
	if n == 1 {
		return nil
	}
	switch {
	case n > j.Workers || j.Workers%n != 0:
		return fmt.Errorf("bn_group=%d: %d workers cannot be cut into groups of as many; want a divisor of workers, or 0 for all", j.NormGroup, j.Workers)
	case !j.traits().Sums:
		return fmt.Errorf("bn_group: batch norms meet in the middle of passes, and in mode %s passes of a step do not go together; use mode=reduce, or bn_group=1", Modes.Spec(j.Mode))
	case j.Overlap:
		return errors.New("bn_group: with overlap=true gradients leave in the middle of a pass that waits for the statistics of others; use overlap=false, or bn_group=1")
	case len(sumsOf(j.Model)) == 0:
		return errors.New("bn_group: the model has no batch norm whose statistics workers could share: none at all, or ghost batches, which are each worker's own; use bn_group=1")
	}
	return nil
}
