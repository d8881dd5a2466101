package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// A pass that meets others stops, ahead and back, until all of them are at the same place
// (sgd.Pass.Sum): at every batch norm whose statistics workers share. It is computed by a
// goroutine that hands what it has to the rank's program, which exchanges it and lets the pass
// go on. So it travels as all else does, and is billed.

// meeting makes such passes.
type meeting struct {
	desk  *compute.Desk
	asks  chan []float64 // the pass waits for these to be what all go on with
	goOn  chan error     // they are, or never will be
	ended chan error     // the pass
}

// stop is what the model calls.
func (m *meeting) stop(_ int, v []float64) error {
	m.asks <- v
	return <-m.goOn
}

// meet makes the pass of a rank. Its virtual time is in equal stretches between the meetings.
func meet(ctx context.Context, r *Rank) error {
	m, p, job := r.meeting, r.pass, r.job
	if m == nil {
		m = &meeting{asks: make(chan []float64), goOn: make(chan error), ended: make(chan error, 1)}
		r.meeting = m
	}
	if m.desk == nil && !job.Weightless {
		m.desk = r.seat.take()
		job.cores.gate.Leave()
		m.desk.Sum = m.stop
	}
	micros, sums := job.micros(job.draw(r.rank, r.step)), sumsOf(job.Model)
	began := r.times.Read()
	pass := func() { m.ended <- r.differentiate(ctx, m.desk, p.On, nil, nil) }
	if job.Weightless {
		pass = func() { m.ended <- m.rehearse(micros, sums) }
	}
	var asked []float64
	var over, started bool
	var failed error
	total := job.Timeline(r.rank, r.step).total
	stretch := comm.Work{Cost: []time.Duration{total / time.Duration(micros*len(sums)+1)}, Run: func(func(int) error) error {
		job.cores.gate.Enter()
		defer job.cores.gate.Leave()
		if started {
			m.goOn <- nil
		} else {
			started = true
			go pass()
		}
		select {
		case asked = <-m.asks:
		case failed = <-m.ended:
			over = true
		}
		return failed
	}}
	for at := 0; ; at++ {
		if err := r.h.Do(ctx, stretch); err != nil {
			return m.giveUp(started && !over, err)
		}
		if over {
			break
		}
		if err := p.Meet(ctx, at, asked); err != nil {
			return m.giveUp(true, fmt.Errorf("worker %d, step %d: %w", r.rank, r.step, err))
		}
	}
	err := r.h.Do(ctx, comm.Work{Cost: []time.Duration{p.Coding}, Run: func(func(int) error) error {
		if p.Then == nil || job.Weightless {
			return nil
		}
		return p.Then()
	}})
	r.times.Price(p.Coding)
	r.times.Computed(began)
	return err
}

// rehearse stops where passes over micro-batches do, with sums of nothing.
func (m *meeting) rehearse(micros int, sums []int) error {
	for range micros {
		for i, n := range sums {
			if err := m.stop(i, make([]float64, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveUp ends a pass that waits for sums.
func (m *meeting) giveUp(waits bool, err error) error {
	if waits {
		for {
			select {
			case <-m.asks:
			case m.goOn <- err:
			case <-m.ended:
				return err
			}
		}
	}
	return err
}

// sumsOf lists the sums that passes of a model make with others'.
func sumsOf(m sgd.Model) []int {
	if joint, ok := m.(sgd.Joint); ok {
		return joint.Sums()
	}
	return nil
}
