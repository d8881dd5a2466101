package train

import (
	"cmp"
	"fmt"
	"slices"
)

// Departure is a worker that leaves the run by plan, before it makes a step. Moves before
// one step are made turn by turn: 0, 1, ….
type Departure struct{ Worker, Step, Turn int }

// Joining is a worker that comes by plan: it takes part from a step on. One that has not
// left before is not there at first.
type Joining struct{ Worker, Step, Turn int }

// move is a worker that leaves or comes by plan, before a step.
type move struct {
	worker, step, turn int
	joins              bool
}

// order is by step and turn; moves of a turn are made together.
func (m move) order(o move) int {
	return cmp.Or(cmp.Compare(m.step, o.step), cmp.Compare(m.turn, o.turn))
}

// fault is the name of the move as a fault.
func (m move) fault() string {
	if m.joins {
		return "join"
	}
	return "leave"
}

// moves are Leaves and Joins in the order in which they are made.
func (j *Job) moves() ([]move, error) {
	var plan []move
	for _, d := range j.Leaves {
		plan = append(plan, move{d.Worker, d.Step, d.Turn, false})
	}
	for _, d := range j.Joins {
		plan = append(plan, move{d.Worker, d.Step, d.Turn, true})
	}
	for i, m := range plan {
		if m.worker < 0 || m.worker >= j.Workers || m.step < 0 || m.step >= j.Updates || m.turn < 0 || i > 0 && m.joins == plan[i-1].joins && m.order(plan[i-1]) < 0 {
			return nil, fmt.Errorf("fault %s: worker %d before step %d: want workers 0 to %d, in order of steps 0 to %d", m.fault(), m.worker, m.step, j.Workers-1, j.Updates-1)
		}
	}
	slices.SortStableFunc(plan, move.order)
	away := j.away()
	for i, m := range plan {
		if i > 0 && slices.ContainsFunc(plan[:i], func(o move) bool { return o.worker == m.worker && o.order(m) == 0 }) {
			return nil, fmt.Errorf("fault %s: worker %d moves twice before step %d: say in which turn, such as leave(w%d,before=%d)+join(w%d,before=%d,turn=1)", m.fault(), m.worker, m.step, m.worker, m.step, m.worker, m.step)
		}
		switch {
		case m.joins && !away[m.worker]:
			return nil, fmt.Errorf("fault join: worker %d is there already before step %d; a worker joins that has left before, or that is not there at first", m.worker, m.step)
		case !m.joins && away[m.worker]:
			return nil, fmt.Errorf("fault leave: worker %d is not there before step %d, so it cannot leave", m.worker, m.step)
		}
		away[m.worker] = !m.joins
	}
	return plan, nil
}

// away are the workers that are not there at first: those that join before they have left.
func (j *Job) away() map[int]bool {
	away := map[int]bool{}
	for _, d := range j.Joins {
		join := move{step: d.Step, turn: d.Turn}
		if !slices.ContainsFunc(j.Leaves, func(l Departure) bool {
			return l.Worker == d.Worker && move{step: l.Step, turn: l.Turn}.order(join) <= 0
		}) {
			away[d.Worker] = true
		}
	}
	return away
}

// due are the moves to be made before a step, of one turn, and how much of the plan is
// behind then. One without effect is passed over: who leaves is gone, or who joins is there.
func (m *Membership) due(plan []move, step int) (now []move, behind int) {
	for behind = m.Planned; behind < len(plan) && plan[behind].step <= step; behind++ {
		d := plan[behind]
		if len(now) > 0 && d.order(now[0]) != 0 {
			break
		}
		if slices.Contains(m.Workers, d.worker) != d.joins {
			now = append(now, d)
		}
	}
	return now, behind
}

// expects says whether a worker that does not take part does so later, by plan.
func (m *Membership) expects(plan []move, worker int) bool {
	return slices.ContainsFunc(plan[min(m.Planned, len(plan)):], func(d move) bool { return d.joins && d.worker == worker })
}

// rejoins says of one who had come before whether it had not begun to take part.
func (m *Membership) rejoins(worker int) bool {
	return slices.Contains(m.Joined, worker) && !slices.ContainsFunc(m.Left, func(l Leave) bool { return l.Worker == worker })
}

// PlanOf is the plan by which workers leave and join as they did in a run of so many
// workers and updates that was made: it has the same bits. Who was not there at first
// leaves before step 0; what happened behind the last update is in no plan.
func PlanOf(workers, updates int, members []Membership) (leaves []Departure, joins []Joining) {
	there := map[int]bool{}
	step, turn := 0, -1
	for w := range workers {
		if there[w] = slices.Contains(members[0].Workers, w); !there[w] {
			leaves, turn = append(leaves, Departure{Worker: w}), 0
		}
	}
	for i, m := range members[1:] {
		if m.Step >= updates {
			break
		}
		if turn++; m.Step != step {
			step, turn = m.Step, 0
		}
		for _, l := range m.Left {
			leaves = append(leaves, Departure{l.Worker, step, turn})
			there[l.Worker] = false
		}
		if len(m.Left) > 0 && len(m.Joined) > 0 { // who left may have come back
			turn++
		}
		for _, w := range m.Joined {
			if there[w] || i+2 < len(members) && members[i+2].rejoins(w) { // it has not begun here
				continue
			}
			joins, there[w] = append(joins, Joining{w, step, turn}), true
		}
	}
	return leaves, joins
}
