package config

import (
	"fmt"
	"strconv"

	"github.com/gradlab/gradlab/registry"
)

// Averages holds the values of key ema, by name: whether, and how, a run keeps a moving
// average of its parameters.
var Averages = registry.New[any]("average")

// Plain runs are evaluated at their parameters, and end with these.
//
// Rule: no average is kept.
//
// Paper: none.
//
// Tuning: with a learning rate that falls to 0 an average gains little.
//
// Cost: none.
type Plain struct{}

var _ = Averages.Add("none", "no average is kept", Plain{})

// Average is a moving average of the parameters. It is evaluated and kept at the end, and
// training goes on from the parameters themselves.
//
//	a ← a + (1−decay)·(w−a) behind updates every, 2·every, …, from the first parameters w on
//
// Paper: averaging of iterates (Polyak and Juditsky 1992).
// Tuning: decay^(1/every) is the share that one update leaves. torchvision takes
// 1 − 0.00002·batch·every/epochs, with every=32.
// Cost: a copy of the parameters, and a pass over both with each update that enters.
type Average struct {
	Decay float64 `spec:",show" doc:"share of the average that an update leaves, above 0 and below 1"`
	Every int     `doc:"updates from one that enters the average to the next"`
}

var _ = Averages.Add("on", "a moving average of the parameters is evaluated and kept", Average{Decay: 0.999, Every: 1})

// Validate checks the options.
func (a Average) Validate() error {
	switch {
	case !(a.Decay > 0 && a.Decay < 1):
		return fmt.Errorf(`option "decay": want above 0 and below 1, not %v`, a.Decay)
	case a.Every < 1:
		return fmt.Errorf(`option "every": want at least 1 update, not %d`, a.Every)
	}
	return nil
}

// averages is the language of key ema: a decay alone is told where it goes.
func averages() language {
	l := table(Averages)
	parse := l.parse
	l.parse = func(text string) (any, error) {
		v, err := parse(text)
		if _, number := strconv.ParseFloat(text, 64); err != nil && number == nil {
			err = fmt.Errorf("%w; the decay is an option: on(decay=%s)", err, text)
		}
		return v, err
	}
	return l
}
