package staletest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/staleness"
)

// history is a run of gradients that an Amender is shown, of four parameters and three
// workers, and what of it is changed to see what the Amender looks at.
type history struct {
	amenders int     // that take turns, by worker; 1: one sees all
	apart    float32 // how far the parameters have moved since a gradient was made
	blind    bool    // Past has what a worker knows, and no more
	impulse  bool    // all gradients are 0 but the first of each worker
}

// outcome is what came out: gradients, one after the other, and the parameters that
// workers were sent, if the Amender looks ahead.
type outcome struct {
	in, out    []float32
	now, ahead []float32
	implements bool // Ahead
	momentum   bool // a gradient of 0 came out as something else
}

const historySize, historyWorkers, historySteps = 4, 3, 24

// play shows c the history.
func (h history) play(c staleness.Corrector) (o outcome, err error) {
	a, ok := c.(staleness.Amending)
	if !ok {
		return o, errors.New("claims Amends and does not implement Amending")
	}
	var amenders []staleness.Amender
	for range h.amenders {
		amenders = append(amenders, a.Amender(historySize, historyWorkers))
	}
	for step := range historySteps {
		w := step * 5 % 7 % historyWorkers
		g, now := make([]float32, historySize), make([]float32, historySize)
		for i := range g {
			now[i] = float32(1 + 0.1*math.Sin(float64(3*step+i)))
			if first := step < historyWorkers; !h.impulse || first {
				g[i] = float32(math.Cos(float64(5*step+2*i)) + 0.1)
			}
		}
		if h.impulse && step < historyWorkers {
			w = step
		}
		sent := slices.Clone(now)
		for i := range sent {
			sent[i] -= h.apart * float32(1+i)
		}
		past := staleness.Past{Worker: w, Update: step}
		if !h.blind {
			past.Delay, past.Mean, past.Rate = step%4, 1.5, 0.1
		}
		o.in = append(o.in, g...)
		amender := amenders[w%h.amenders]
		amender.Amend(g, now, sent, past)
		o.out = append(o.out, g...)
		if h.impulse && step >= historyWorkers && slices.ContainsFunc(g, func(x float32) bool { return x != 0 }) {
			o.momentum = true
		}
		if ahead, ok := amender.(staleness.Ahead); ok {
			o.implements = true
			dst := make([]float32, historySize)
			ahead.Ahead(dst, now, 0.1)
			o.now, o.ahead = append(o.now, now...), append(o.ahead, dst...)
		}
	}
	return o, nil
}

// Claims shows what a corrector claims of itself, both ways: two histories that differ
// in what a claim is about come out differently where it is made, and alike where it
// is not. AtWorker is shown where it is made only.
func Claims(c staleness.Corrector) error {
	t := c.Traits()
	_, amending := c.(staleness.Amending)
	err := func() error {
		switch {
		case amending != t.Amends:
			return fmt.Errorf("claims Amends: %v, and implements Amending: %v", t.Amends, amending)
		case t.None && t.Amends:
			return errors.New("claims None, and Amends")
		case !t.Amends && (t.Compares || t.AtWorker || t.Momentum || t.Ahead):
			return errors.New("claims Compares, AtWorker, Momentum or Ahead of an Amender, and not that it Amends")
		}
		scales := scales(c)
		if !t.Amends {
			return both("None", t.None, !scales, "Scale is not always 1", "leaves every gradient as it is")
		}
		if err := comparesAndRemembers(c); err != nil {
			return err
		}
		return places(c, scales)
	}()
	if err != nil {
		return fmt.Errorf("corrector %s: %w", staleness.Correctors.Spec(c), err)
	}
	return nil
}

// ProbeCorrector looks for claims that are missing and would let a run diverge: of a
// momentum, and of parameters that it compares with.
func ProbeCorrector(c staleness.Corrector) error {
	t := c.Traits()
	if _, amending := c.(staleness.Amending); !t.Amends && !amending {
		return nil
	}
	if err := comparesAndRemembers(c); err != nil {
		return fmt.Errorf("corrector %s: %w", staleness.Correctors.Spec(c), err)
	}
	return nil
}

// both compares a claim with what was seen.
func both(name string, claimed, seen bool, unkept, unclaimed string) error {
	switch {
	case claimed && !seen:
		return fmt.Errorf("claims %s, but %s", name, unkept)
	case seen && !claimed:
		return fmt.Errorf("%s; claim %s", unclaimed, name)
	}
	return nil
}

// scales says whether Scale is something else than 1 somewhere.
func scales(c staleness.Corrector) bool {
	for delay := range 20 {
		for _, update := range []int{delay, 100 + delay, 10000} {
			for _, mean := range []float64{0, 0.5, 3} {
				for _, rate := range []float64{0, 0.1} {
					if c.Scale(staleness.Past{Delay: delay, Worker: delay % 3, Update: update, Mean: mean, Rate: rate}) != 1 {
						return true
					}
				}
			}
		}
	}
	return false
}

// comparesAndRemembers shows Compares and Momentum, or their absence.
func comparesAndRemembers(c staleness.Corrector) error {
	t := c.Traits()
	here, err := history{amenders: 1}.play(c)
	if err != nil {
		return err
	}
	compares := false
	for _, apart := range []float32{0.01, 1, 1000} {
		o, err := history{amenders: 1, apart: apart}.play(c)
		if err != nil {
			return err
		}
		compares = compares || !slices.Equal(o.out, here.out)
	}
	impulse, err := history{amenders: 1, impulse: true}.play(c)
	if err != nil {
		return err
	}
	return errors.Join(
		both("Compares", t.Compares, compares, "what workers were sent makes no difference", "what comes out depends on the parameters that workers were sent"),
		both("Momentum", t.Momentum, impulse.momentum, "gradients of 0 come out as 0, whatever was before", "gradients of 0 come out as something else, as part of earlier ones is in them"))
}

// places shows None, Ahead and AtWorker.
func places(c staleness.Corrector, scales bool) error {
	t := c.Traits()
	o, err := history{amenders: 1, apart: 1}.play(c)
	if err != nil {
		return err
	}
	ahead := o.implements && !slices.Equal(o.now, o.ahead)
	switch {
	case t.Ahead && !o.implements:
		return errors.New("claims Ahead, and its Amender does not implement it")
	case !scales && slices.Equal(o.in, o.out) && !ahead:
		return errors.New("claims Amends, and leaves every gradient as it is")
	}
	if err := both("Ahead", t.Ahead, ahead, "workers are sent the parameters themselves", "workers are sent something other than the parameters"); err != nil || !t.AtWorker {
		return err
	}
	if t.Compares || t.Ahead {
		return errors.New("claims AtWorker, and Compares or Ahead, which only a server can do")
	}
	knows, err := history{amenders: historyWorkers}.play(c)
	if err != nil {
		return err
	}
	blind, err := history{amenders: historyWorkers, blind: true}.play(c)
	if err == nil && !slices.Equal(knows.out, blind.out) {
		err = errors.New("claims AtWorker, and what comes out depends on staleness or rate, which a worker does not know")
	}
	return err
}
