package train

import (
	"fmt"
	"slices"
)

// Departure is a worker that leaves the run by plan, before it makes a step.
type Departure struct{ Worker, Step int }

// Joining is a worker that comes by plan: it takes part from a step on. One that has not
// left before is not there at first.
type Joining struct{ Worker, Step int }

// move is a worker that leaves or comes by plan, before a step.
type move struct {
	worker, step int
	joins        bool
}

// moves are Leaves and Joins in the order in which they are made: by step, and of one
// worker by turns.
func (j *Job) moves() ([]move, error) {
	var leaves, joins []move
	for _, d := range j.Leaves {
		leaves = append(leaves, move{d.Worker, d.Step, false})
	}
	for _, d := range j.Joins {
		joins = append(joins, move{d.Worker, d.Step, true})
	}
	for _, l := range [][]move{leaves, joins} {
		if err := j.inOrder(l); err != nil {
			return nil, err
		}
	}
	away := j.away()
	var out []move
	for len(leaves)+len(joins) > 0 {
		from := &leaves
		if len(leaves) == 0 || len(joins) > 0 && (joins[0].step < leaves[0].step || joins[0].step == leaves[0].step && away[leaves[0].worker]) {
			from = &joins
		}
		m := (*from)[0]
		switch {
		case m.joins && !away[m.worker]:
			return nil, fmt.Errorf("join: worker %d is there already before step %d; a worker joins that has left before, or that is not there at first", m.worker, m.step)
		case !m.joins && away[m.worker]:
			return nil, fmt.Errorf("leave: worker %d is not there before step %d, so it cannot leave", m.worker, m.step)
		}
		away[m.worker] = !m.joins
		out, *from = append(out, m), (*from)[1:]
	}
	return out, nil
}

// inOrder checks moves of one kind by themselves.
func (j *Job) inOrder(l []move) error {
	last := -1
	for _, d := range l {
		if d.worker < 0 || d.worker >= j.Workers || d.step < 0 || d.step >= j.Updates || d.step < last {
			key := "leave"
			if d.joins {
				key = "join"
			}
			return fmt.Errorf("%s: worker %d before step %d: want workers 0 to %d, in order of steps 0 to %d", key, d.worker, d.step, j.Workers-1, j.Updates-1)
		}
		last = d.step
	}
	return nil
}

// away are the workers that are not there at first: those that join before they have left.
func (j *Job) away() map[int]bool {
	away := map[int]bool{}
	for _, d := range j.Joins {
		left := slices.ContainsFunc(j.Leaves, func(l Departure) bool { return l.Worker == d.Worker && l.Step <= d.Step })
		if !left {
			away[d.Worker] = true
		}
	}
	return away
}

// due are the moves to be made before a step, and how much of the plan is behind then. One
// without effect is passed over: who leaves is gone, or who joins is there. Of a worker
// that leaves and comes back before the same step the second move is for the next epoch.
func (m *Membership) due(plan []move, step int) (now []move, behind int) {
	for behind = m.Planned; behind < len(plan) && plan[behind].step <= step; behind++ {
		d := plan[behind]
		if slices.ContainsFunc(now, func(o move) bool { return o.worker == d.worker }) {
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

// PlanOf is the plan by which workers leave and join as they did in a run of so many
// workers that was made: it has the same bits. Who was not there at first leaves before
// step 0.
func PlanOf(workers int, members []Membership) (leaves []Departure, joins []Joining) {
	there := map[int]bool{}
	for w := range workers {
		if there[w] = slices.Contains(members[0].Workers, w); !there[w] {
			leaves = append(leaves, Departure{Worker: w})
		}
	}
	for _, m := range members[1:] {
		for _, l := range m.Left {
			leaves = append(leaves, Departure{l.Worker, m.Step})
			there[l.Worker] = false
		}
		for _, w := range m.Joined {
			if !there[w] { // else it had come before, and not begun
				joins = append(joins, Joining{w, m.Step})
			}
			there[w] = true
		}
	}
	return leaves, joins
}
