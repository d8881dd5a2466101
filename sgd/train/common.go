package train

import (
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/sgd"
)

// common is what ranks without servers each have a copy of: the parameters and
// the optimizer's state, with the same bits everywhere. Ranks of one process
// share one copy, and the first of them to come to an update makes it.
//
// It is made in place: a rank comes to an update with the gradients of all
// ranks, so nobody reads the parameters they were made on any more.
type common struct {
	opt *stepper

	mu      sync.Mutex
	params  vector
	version int // updates made
}

func newCommon(j *Job) (*common, error) {
	opt, err := newStepper(j, j.Model.Layout(), j.cores.limit())
	if err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	initial := j.initial()
	c := &common{opt: opt, params: newVector(len(initial))}
	copy(c.params.f, initial)
	return c, nil
}

// update makes update s.N by the mean gradient u, unless it is made. u holds
// nothing of use afterwards.
func (c *common) update(u []float32, s sgd.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version > s.N {
		return
	}
	c.params.own() // a snapshot may share them
	c.opt.advance(u, c.params.f, s)
	c.version = s.N + 1
}

func (c *common) save(st *State) {
	st.Vectors["param"] = c.params.f
	if o, ok := c.opt.opt.(sgd.Stateful); ok {
		for _, sl := range o.Slots() {
			st.Vectors["opt/"+sl.Name] = sl.V
		}
	}
}

// load takes up a state, unless another rank has.
func (c *common) load(st *State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := int(st.Ints["version"])
	if c.version == version {
		return nil
	}
	if err := st.vector("param", c.params.f); err != nil {
		return err
	}
	if o, ok := c.opt.opt.(sgd.Stateful); ok {
		for _, sl := range o.Slots() {
			if err := st.vector("opt/"+sl.Name, sl.V); err != nil {
				return err
			}
		}
	}
	c.version = version
	return nil
}
