package pipeline

import "fmt"

// ZBV has two stages on each device in the form of a V, so that the last device goes on by
// itself, and parts the gradients: ZB-V (Qi et al. 2024, arXiv 2405.15362). Where F, B and W
// take the same time no device idles, and each holds as much as with 1F1B, at twice the
// messages. It wants at least 2·p−1 micro-batches.
type ZBV struct{}

// DualPipeV is ZBV's form with forward and backward passes that overlap, so that one
// computes while the other sends (DeepSeek-AI 2024, arXiv 2412.19437; the V by Sea AI Lab). It
// wants at least 2·p micro-batches.
type DualPipeV struct{}

var (
	_ = Schedules.Add("zbv", "two stages a device in a V, gradients parted: no idle time where F = B = W", ZBV{})
	_ = Schedules.Add("dualpipev", "two stages a device in a V, forward and backward passes that overlap", DualPipeV{})
)

// vee plans one device of a V: pass takes the next micro-batch of its first stage or its
// second one through a pass.
type vee struct {
	line
	stages [2]int
	done   map[Kind]*[2]int
	parted bool     // gradients of inputs come alone, those of weights are owed
	owed   []Action // gradients of weights
}

func newVee(devices, d int) *vee {
	return &vee{stages: [2]int{d, 2*devices - 1 - d}, done: map[Kind]*[2]int{Forward: {}, Inputs: {}, Weights: {}}}
}

// next is the action of kind on a device's first or second stage that comes next.
func (v *vee) next(half int, kind Kind) Action {
	at := v.done[kind]
	at[half]++
	return Action{v.stages[half], kind, at[half] - 1}
}

func (v *vee) pass(half int, kinds ...Kind) {
	for _, k := range kinds {
		v.line = append(v.line, Cell{v.next(half, k)})
	}
}

// Plan implements Schedule.
func (ZBV) Plan(devices, micros int) (*Plan, error) {
	if err := check(devices, micros); err == nil && micros < 2*devices-1 {
		return nil, fmt.Errorf("pipeline: zbv on %d devices fills from %d micro-batches on, not with %d", devices, 2*devices-1, micros)
	}
	return plan(devices, micros, folded(max(devices, 0)), func(d int) line {
		v := newVee(devices, d)
		for range 2*(devices-d) - 1 {
			v.pass(0, Forward)
		}
		for range d {
			v.pass(1, Forward)
			v.pass(0, Forward)
		}
		for range devices - d {
			v.pass(1, Forward, Inputs, Weights)
		}
		for f := v.done[Forward]; f[1] < f[0] || f[0] < micros; {
			if f[0] < micros {
				v.pass(0, Forward)
			}
			v.pass(0, Inputs, Weights)
			v.pass(1, Forward, Inputs, Weights)
		}
		for range d {
			v.pass(0, Inputs)
			v.pass(1, Inputs)
		}
		for range devices - d {
			v.pass(0, Inputs, Weights)
		}
		for _, half := range []int{1, 0} {
			for w := v.done[Weights]; w[half] < micros; {
				v.pass(half, Weights)
			}
		}
		return v.line
	})
}

// back is the next backward pass of a half: whole, or of inputs alone, which owes weights.
func (v *vee) back(half int) Action {
	a := v.next(half, Inputs)
	if !v.parted {
		a.Kind = Backward
		return a
	}
	v.owed = append(v.owed, Action{a.Stage, Weights, a.Micro})
	return a
}

// pay makes the oldest gradient of weights that is owed.
func (v *vee) pay() {
	v.line = append(v.line, Cell{v.owed[0]})
	v.owed = v.owed[1:]
}

// Plan implements Schedule.
func (DualPipeV) Plan(devices, micros int) (*Plan, error) {
	if err := check(devices, micros); err == nil && micros < 2*devices {
		return nil, fmt.Errorf("pipeline: dualpipev on %d devices fills from %d micro-batches on, not with %d", devices, 2*devices, micros)
	}
	return plan(devices, micros, folded(max(devices, 0)), func(d int) line {
		v, left := newVee(devices, d), devices-1-d
		alone := func(a Action) { v.line = append(v.line, Cell{a}) }
		for range 2 * left {
			v.pass(0, Forward)
		}
		for range d + 1 {
			v.pass(0, Forward)
			v.pass(1, Forward)
		}
		for range left {
			v.pass(1, Inputs, Weights, Forward)
		}
		for i := range micros - 2*devices + d + 1 {
			f := v.next(0, Forward)
			if i == 0 && left == 0 { // the last device's first gradient waits for nobody
				alone(f)
				alone(v.back(1))
			} else {
				v.line = append(v.line, Cell{f, v.back(1)})
			}
			v.line = append(v.line, Cell{v.next(1, Forward), v.back(0)})
		}
		for range left {
			alone(v.back(1))
			v.line = append(v.line, Cell{v.next(1, Forward), v.back(0)})
		}
		for i := range d + 1 { // from the middle on, gradients are parted
			v.parted = v.parted || i == (d+1)/2 && d%2 == 1
			alone(v.back(1))
			v.parted = v.parted || i == (d+1)/2 && d%2 == 0
			alone(v.back(0))
		}
		for range left {
			v.pay()
			alone(v.back(0))
		}
		for len(v.owed) > 0 {
			v.pay()
		}
		return v.line
	})
}
