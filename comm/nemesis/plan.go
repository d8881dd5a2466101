package nemesis

import (
	"errors"
	"fmt"
	"strings"
)

// Move is a worker that leaves a run by plan, or joins it, before a step.
type Move struct {
	Worker, Before int
	Turn           int // moves before one step are made turn by turn: 0, 1, …
	Joins          bool
}

// Mover is a fault that happens before a step, and not at an instant.
type Mover interface {
	Fault
	Move(w World) (Move, error)
}

// Moves lists the moves of a schedule in a world, in the order of the schedule.
func (s Schedule) Moves(w World) ([]Move, error) {
	var out []Move
	var errs []error
	for _, f := range s {
		m, ok := f.(Mover)
		if !ok {
			continue
		}
		move, err := m.Move(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Faults.Spec(f), err))
		}
		out = append(out, move)
	}
	return out, errors.Join(errs...)
}

// Split separates the faults that happen before a step from those at instants, and laws.
func (s Schedule) Split() (moves, timed Schedule) {
	for _, f := range s {
		if _, ok := f.(Mover); ok {
			moves = append(moves, f)
		} else {
			timed = append(timed, f)
		}
	}
	return moves, timed
}

// Leave has a worker leave an elastic run by plan: it takes part up to a step, and nothing
// of what it did is lost but the residual of its codec. The death of a worker in such a run
// is repeated so, bit for bit.
//
//	steps before, before+1, …: without the worker
//
// Paper: elastic training as TorchElastic has it (PyTorch 1.9).
// Tuning: leave(w2,before=40)+join(w2,before=60) is a worker that is away for 20 steps.
// Cost: an epoch of membership, in which the others agree.
type Leave struct{ Plan }

var _ = Faults.Add("leave", "a worker leaves an elastic run by plan, before a step", Leave{Plan{Rank: "w0", Before: 10}})

// Draw implements Fault.
func (f Leave) Draw(w World) ([]Fault, error) {
	_, err := f.Move(w)
	return []Fault{f}, err
}

// Move implements Mover.
func (f Leave) Move(w World) (Move, error) {
	r, err := w.rank(f.Rank)
	return Move{Worker: r, Before: f.Before, Turn: f.Turn}, err
}

// Join has a worker join an elastic run by plan. One that has not left before is not there
// at first.
//
//	steps before, before+1, …: with the worker, which begins from what another holds
//
// Paper: elastic training as TorchElastic has it (PyTorch 1.9).
// Tuning: leave(w2,before=40)+join(w2,before=40,turn=1) begins its codecs and its optimizer
// anew.
// Cost: an epoch of membership, and what another worker or the servers send it.
type Join struct{ Plan }

var _ = Faults.Add("join", "a worker joins an elastic run by plan, before a step", Join{Plan{Rank: "w0", Before: 10}})

// Draw implements Fault.
func (f Join) Draw(w World) ([]Fault, error) {
	_, err := f.Move(w)
	return []Fault{f}, err
}

// Move implements Mover.
func (f Join) Move(w World) (Move, error) {
	r, err := w.rank(f.Rank)
	return Move{Worker: r, Before: f.Before, Turn: f.Turn, Joins: true}, err
}

// Plan is which worker moves, and when.
type Plan struct {
	Rank   string `spec:",show" doc:"who: w0, w1, …"`
	Before int    `spec:",show" doc:"the first step for which it counts; of asynchronous runs, the update"`
	Turn   int    `doc:"moves before one step are made turn by turn, 0, 1, …, each in an epoch of its own"`
}

// Validate checks the options.
func (p Plan) Validate() error {
	errs := []error{named(p.Rank)}
	if errs[0] == nil && !strings.HasPrefix(p.Rank, "w") {
		errs[0] = fmt.Errorf(`option "rank": want a worker, such as w2, not %q`, p.Rank)
	}
	if p.Before < 0 {
		errs = append(errs, fmt.Errorf(`option "before": want a step, 0 or more, not %d`, p.Before))
	}
	if p.Turn < 0 {
		errs = append(errs, fmt.Errorf(`option "turn": want 0 or more, not %d`, p.Turn))
	}
	return errors.Join(errs...)
}
