package pipeline

import (
	"fmt"
	"math"
)

// Times is how long passes take, in seconds or any other unit. Of Forward, Inputs and
// Weights each has a value for every stage, or one for all.
type Times struct {
	Forward, Inputs, Weights []float64
	Move                     float64 // of what one stage hands to another device's
	Hidden                   float64 // share of a forward pass that hides behind the backward pass it overlaps
}

// Cost is what a plan takes.
type Cost struct {
	Seconds float64     `json:"seconds"` // from the first action to the last, in the unit of Times
	Start   [][]float64 `json:"start"`   // of every cell
	End     [][]float64 `json:"end"`
	Idle    []float64   `json:"idle"` // of each device between its first and its last action
	Wait    []float64   `json:"wait"` // of each device from the first action of all to the last of all
	Held    []int       `json:"held"` // the most activations a device holds: of a micro-batch in a stage, from its forward pass to its last gradient
}

// Price executes a plan in virtual time: a device begins a cell once it has done the one
// before and has what the cell's actions wait for. A plan that Verify refuses is an error.
func Price(p *Plan, t Times) (*Cost, error) {
	for what, times := range map[string][]float64{"forward": t.Forward, "inputs": t.Inputs, "weights": t.Weights, "move": {t.Move}} {
		if len(times) != 1 && len(times) != len(p.Stages) {
			return nil, fmt.Errorf("pipeline: %d times of %s for %d stages: want one, or one each", len(times), what, len(p.Stages))
		}
		for _, v := range times {
			if !(v >= 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("pipeline: a time of %s is %v: want 0 or more", what, v)
			}
		}
	}
	if !(t.Hidden >= 0 && t.Hidden <= 1) {
		return nil, fmt.Errorf("pipeline: the hidden share is %v: want 0 to 1", t.Hidden)
	}
	if err := Verify(p); err != nil {
		return nil, err
	}
	cells, err := order(p)
	if err != nil {
		return nil, err
	}
	c := &Cost{Idle: make([]float64, len(p.Devices)), Wait: make([]float64, len(p.Devices)), Held: make([]int, len(p.Devices))}
	for _, cells := range p.Devices {
		c.Start, c.End = append(c.Start, make([]float64, len(cells))), append(c.End, make([]float64, len(cells)))
	}
	ended := map[Action]float64{}
	busy, held := make([]float64, len(p.Devices)), make([]int, len(p.Devices))
	for _, at := range cells {
		d, i := at[0], at[1]
		begin := 0.0
		if i > 0 {
			begin = c.End[d][i-1]
		}
		took := 0.0
		for _, a := range p.Devices[d][i] {
			for _, b := range p.before(a) {
				begin = max(begin, p.handed(b, d, ended, t.Move))
			}
			took += t.of(a)
			switch a.Kind {
			case Forward:
				held[d]++
				c.Held[d] = max(c.Held[d], held[d])
			case Backward, Weights:
				held[d]--
			}
		}
		if cell := p.Devices[d][i]; len(cell) == 2 {
			took -= t.Hidden * min(t.of(cell[0]), t.of(cell[1]))
		}
		c.Start[d][i], c.End[d][i] = begin, begin+took
		busy[d] += took
		for _, a := range p.Devices[d][i] {
			ended[a] = begin + took
		}
		c.Seconds = max(c.Seconds, begin+took)
	}
	for d, ends := range c.End {
		c.Wait[d] = c.Seconds - busy[d]
		if n := len(ends); n > 0 {
			c.Idle[d] = ends[n-1] - c.Start[d][0] - busy[d]
		}
	}
	return c, nil
}

// handed is when device d has what action b made.
func (p *Plan) handed(b Action, d int, ended map[Action]float64, move float64) float64 {
	at, ok := ended[b]
	if !ok { // a whole backward pass
		at = ended[Action{b.Stage, Backward, b.Micro}]
	}
	if p.Stages[b.Stage] != d {
		at += move
	}
	return at
}

// of is how long an action takes.
func (t Times) of(a Action) float64 {
	at := func(times []float64) float64 { return times[min(a.Stage, len(times)-1)] }
	switch a.Kind {
	case Forward:
		return at(t.Forward)
	case Inputs:
		return at(t.Inputs)
	case Weights:
		return at(t.Weights)
	}
	return at(t.Inputs) + at(t.Weights)
}
