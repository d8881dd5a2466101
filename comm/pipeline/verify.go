package pipeline

import "fmt"

// Verify proves a plan: every micro-batch passes every stage forward once and backward
// once, whole or in two parts, on the stage's device and in an order that ends. The error
// names the device and the action.
func Verify(p *Plan) error {
	if p.Micros < 1 || len(p.Stages) == 0 {
		return fmt.Errorf("pipeline: %d micro-batches of %d stages: want at least 1 of each", p.Micros, len(p.Stages))
	}
	seen := map[Action]bool{}
	for d, cells := range p.Devices {
		for i, c := range cells {
			if len(c) == 0 || len(c) > 2 || len(c) == 2 && (c[0].Kind == Forward) == (c[1].Kind == Forward) {
				return fmt.Errorf("pipeline: device %d, cell %d: %v: want an action, or a forward and a backward one", d, i, c)
			}
			for _, a := range c {
				switch {
				case a.Stage < 0 || a.Stage >= len(p.Stages) || a.Micro < 0 || a.Micro >= p.Micros:
					return fmt.Errorf("pipeline: device %d does %v: there are %d stages and %d micro-batches", d, a, len(p.Stages), p.Micros)
				case p.Stages[a.Stage] != d:
					return fmt.Errorf("pipeline: device %d does %v: the stage is on device %d", d, a, p.Stages[a.Stage])
				case a.Kind != Forward && a.Kind != Backward && a.Kind != Inputs && a.Kind != Weights:
					return fmt.Errorf("pipeline: device %d does %v: want F, B, I or W", d, a)
				case seen[a]:
					return fmt.Errorf("pipeline: device %d does %v twice", d, a)
				}
				seen[a] = true
			}
		}
	}
	for s, d := range p.Stages {
		for i := range p.Micros {
			if !seen[Action{s, Forward, i}] {
				return fmt.Errorf("pipeline: device %d never does %v", d, Action{s, Forward, i})
			}
			whole, inputs, weights := seen[Action{s, Backward, i}], seen[Action{s, Inputs, i}], seen[Action{s, Weights, i}]
			if inputs != weights || whole == inputs {
				return fmt.Errorf("pipeline: device %d goes back through stage %d with micro-batch %d by %s: want B, or both of I and W",
					d, s, i, chosen(whole, inputs, weights))
			}
		}
	}
	_, err := order(p)
	return err
}

// chosen lists the kinds that there are.
func chosen(whole, inputs, weights bool) string {
	s := ""
	for _, k := range []struct {
		there bool
		kind  Kind
	}{{whole, Backward}, {inputs, Inputs}, {weights, Weights}} {
		if k.there {
			s += string(k.kind)
		}
	}
	if s == "" {
		return "nothing"
	}
	return s
}

// order is an order of all cells, as (device, cell), in which every action comes after what
// it waits for. The error names the first device that waits for ever.
func order(p *Plan) ([][2]int, error) {
	done, at := map[Action]bool{}, make([]int, len(p.Devices))
	var out [][2]int
	for progress := true; progress; {
		progress = false
		for d, cells := range p.Devices {
		next:
			for ; at[d] < len(cells); at[d]++ {
				for _, a := range cells[at[d]] {
					if len(p.missing(a, done)) > 0 {
						break next
					}
				}
				for _, a := range cells[at[d]] {
					done[a] = true
				}
				out, progress = append(out, [2]int{d, at[d]}), true
			}
		}
	}
	for d, cells := range p.Devices {
		if at[d] < len(cells) {
			for _, a := range cells[at[d]] {
				if missing := p.missing(a, done); len(missing) > 0 {
					return nil, fmt.Errorf("pipeline: device %d waits for ever to do %v: %v is not done", d, a, missing[0])
				}
			}
		}
	}
	return out, nil
}

// missing is what an action waits for that is not done.
func (p *Plan) missing(a Action, done map[Action]bool) (out []Action) {
	for _, b := range p.before(a) {
		if !done[b] && !(b.Kind == Inputs && done[Action{b.Stage, Backward, b.Micro}]) {
			out = append(out, b)
		}
	}
	return out
}

// before is what an action waits for directly. A gradient of inputs may come from a whole
// backward pass.
func (p *Plan) before(a Action) []Action {
	switch {
	case a.Kind == Weights:
		return []Action{{a.Stage, Inputs, a.Micro}}
	case a.Kind == Forward && a.Stage > 0:
		return []Action{{a.Stage - 1, Forward, a.Micro}}
	case a.Kind == Forward:
		return nil
	case a.Stage == len(p.Stages)-1:
		return []Action{{a.Stage, Forward, a.Micro}}
	}
	return []Action{{a.Stage, Forward, a.Micro}, {a.Stage + 1, Inputs, a.Micro}}
}
