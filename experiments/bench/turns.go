package bench

import (
	"context"
	"fmt"
	"strconv"
)

// talker is a group that takes turns with others at a command.
type talker struct {
	*group
	name    string
	ours    bool
	command string // the number of iterations follows
	err     error  // what ended it
}

// turns are what a talker did in its rounds.
type turns struct {
	each   []float64 // seconds an iteration
	allocs float64   // as the group tells it
	cpu    float64   // processor seconds of all its processes, an iteration; 0: not known
}

// micros are microseconds an iteration.
func (t turns) micros() Spread { return t.spread(1e6) }

// spread is that of the seconds of an iteration times scale.
func (t turns) spread(scale float64) Spread {
	s := SpreadOf(t.each)
	return Spread{scale * s.Median, scale * s.Min, scale * s.Max}
}

// rate is the spread of amount a second.
func (t turns) rate(amount float64) Spread {
	v := make([]float64, len(t.each))
	for i, s := range t.each {
		v[i] = amount / s
	}
	return SpreadOf(v)
}

// timesAsFast is how many times as fast a is as b, round by round.
func timesAsFast(a, b turns) Spread {
	var v []float64
	for i := range min(len(a.each), len(b.each)) {
		v = append(v, b.each[i]/a.each[i])
	}
	return SpreadOf(v)
}

// compare lets groups take turns: in every round each has a block of Seconds, and
// in every round another one begins. One that fails is left out from then on.
func (o *WireOptions) compare(ctx context.Context, ts []*talker) []turns {
	out := make([]turns, len(ts))
	iters := make([]int, len(ts))
	block := func(i, n int) (a took, ok bool) {
		t := ts[i]
		if t.err != nil || ctx.Err() != nil {
			return a, false
		}
		t.err = t.ask(ctx, t.command+" "+strconv.Itoa(n), &a)
		if t.err == nil && !(a.Seconds > 0) {
			t.err = fmt.Errorf("%d iterations took it %v seconds", n, a.Seconds)
		}
		if t.err != nil {
			t.err = fmt.Errorf("%s, %s: %w", t.name, t.command, t.err)
		}
		return a, t.err == nil
	}
	for i := range ts { // how many iterations make a block
		for n := 1; ; n *= 4 {
			a, ok := block(i, n)
			if !ok {
				break
			}
			if a.Seconds > o.Seconds/4 || n > 1<<20 {
				iters[i] = max(1, int(float64(n)*o.Seconds/a.Seconds))
				break
			}
		}
	}
	for round := range o.Rounds {
		for k := range ts {
			i := (round + k) % len(ts)
			before := ts[i].cpu()
			if a, ok := block(i, iters[i]); ok {
				out[i].each = append(out[i].each, a.Seconds/float64(iters[i]))
				out[i].allocs = a.Allocs
				out[i].cpu += (ts[i].cpu() - before) / float64(iters[i]*o.Rounds)
			}
		}
	}
	return out
}

// ratios compares talker i, if it is ours, with every peer.
func ratios(ts []*talker, all []turns, i int) map[string]Spread {
	if !ts[i].ours {
		return nil
	}
	var m map[string]Spread
	for j, peer := range ts {
		if peer.ours || peer.err != nil {
			continue
		}
		if m == nil {
			m = map[string]Spread{}
		}
		m[peer.name] = timesAsFast(all[i], all[j])
	}
	return m
}
