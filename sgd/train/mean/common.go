package mean

import (
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// common is what ranks without servers each have a copy of: the parameters and
// the optimizer's state, with the same bits everywhere. Ranks of one process
// share one copy, and the first of them to come to an update makes it.
//
// It is made in place: a rank comes to an update with the gradients of all
// ranks, so nobody reads the parameters they were made on any more.
type common struct {
	opt *compute.Stepper

	mu      sync.Mutex
	params  wire.Vector
	version int              // updates made
	before  *checkpoint.Held // what it was before the last one; nil: nobody asks
	parts   []int            // the same, by part, where they are made part by part
}

// commonKey is where ranks of a process share it.
type commonKey struct{}

func newCommon(j *train.Job) (*common, error) {
	rule := j.Optimizer
	if j.Heeds("outer") { // the optimizer is each worker's own
		if rule = j.Outer; rule == nil {
			rule = sgd.Plain{}
		}
	}
	opt, err := j.NewStepper(rule)
	if err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	initial := j.Initial()
	opt.Avg = j.NewAverage(initial)
	c := &common{opt: opt, params: wire.NewVector(len(initial))}
	copy(c.params.F(), initial)
	if j.Elastic {
		c.before = &checkpoint.Held{Step: -1}
	}
	return c, nil
}

// update makes update s.N by the mean gradient u, unless it is made. u holds
// nothing of use afterwards.
func (c *common) update(u []float32, s sgd.Step) {
	c.move(s.N, func(params []float32) { c.opt.Advance(u, params, s) })
}

// updatePart makes a part of update s.N by the mean gradient u, unless it is made.
// Parts are numbered against the order in which they are made.
func (c *common) updatePart(part, parts int, at sgd.Range, u []float32, s sgd.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = make([]int, parts)
		for i := range c.parts {
			c.parts[i] = c.version
		}
	}
	if c.parts[part] > s.N {
		return
	}
	if part == parts-1 {
		c.params.Own()
	}
	c.opt.AdvancePart(u, c.params.F(), at, s)
	if c.parts[part] = s.N + 1; part == 0 {
		c.version = s.N + 1
	}
}

// move makes update number n by what by does to the parameters, unless it is
// made.
func (c *common) move(n int, by func(params []float32)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version > n {
		return
	}
	if c.before != nil {
		k := checkpoint.Saving(checkpoint.New())
		c.name(k)
		c.before.Hold(n, 0, k.Of)
	}
	c.params.Own() // a snapshot may share them
	by(c.params.F())
	c.version = n + 1
}

// keep keeps it; it is loaded once for all who share it, as it was after version
// updates.
func (c *common) keep(k *checkpoint.Keeper, version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case k.Loads() && k.Own:
		k.Fail(c.rewind(version))
		return
	case k.Loads() && c.version == version:
		return
	case k.Loads() && c.before != nil && c.before.Step == version && c.version == version+1:
		k.Fail(c.rewind(version)) // a rank that joins comes to it first
		return
	}
	if c.name(k); k.Loads() && k.Err() == nil {
		c.version = version
	}
}

// name names what there is to keep.
func (c *common) name(k *checkpoint.Keeper) {
	k.Vector(train.KeyParam, c.params.F())
	c.opt.Keep(k, train.KeyOpt)
}

// rewind undoes the last update, if it was that number n. Callers hold mu.
func (c *common) rewind(n int) error {
	if c.version <= n {
		return nil
	}
	if c.before == nil || c.before.Step != n || c.version != n+1 {
		return fmt.Errorf("update %d cannot be undone: %d are made", n, c.version)
	}
	c.params.Own()
	k := checkpoint.Loading(c.before.State)
	if c.name(k); k.Err() == nil {
		c.version = n
	}
	return k.Err()
}
