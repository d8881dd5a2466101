package config

import (
	"errors"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// timedAs is a model whose virtual time is that of another one: the other's
// operations, spread over this one's spans in proportion. Where pictures change their
// side the other's do so in proportion.
type timedAs struct {
	sgd.Model
	other sgd.Model
	times float64 // the other's side over this one's
}

// Meetings implements sgd.Joint.
func (t timedAs) Meetings(samples int) []sgd.Meeting {
	if j, ok := t.Model.(sgd.Joint); ok {
		return j.Meetings(samples)
	}
	return nil
}

// At implements sgd.Resizable.
func (t timedAs) At(side int) (sgd.Model, error) {
	for of, side := range map[*sgd.Model]int{&t.Model: side, &t.other: int(math.Round(t.times * float64(side)))} {
		m, ok := (*of).(sgd.Resizable)
		if !ok {
			return nil, errors.New("it, or what it is timed as, has a fixed side")
		}
		at, err := m.At(side)
		if err != nil {
			return nil, err
		}
		*of = at
	}
	return t, nil
}

// SpanFLOPs implements sgd.Model.
func (t timedAs) SpanFLOPs() []float64 {
	own := t.Model.SpanFLOPs()
	sum, other := 0.0, 0.0
	for _, f := range own {
		sum += f
	}
	for _, f := range t.other.SpanFLOPs() {
		other += f
	}
	out := make([]float64, len(own))
	for i := range own {
		if sum > 0 {
			out[i] = own[i] * other / sum
		} else {
			out[i] = other / float64(len(own))
		}
	}
	return out
}
