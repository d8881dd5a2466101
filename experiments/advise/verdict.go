package advise

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
)

// Best are the best way to use each codec and mode and the best parameter servers,
// the shortest step first.
func Best(options []*Option) []*Option {
	var out []*Option
	seen := map[string]bool{}
	servers := false
	for _, o := range options {
		server := o.Config.Mode == "server" && o.Way() == "raw"
		switch key := o.Way() + " " + o.Config.Codec; {
		case !seen[key]:
			seen[key] = true
			servers = servers || server
		case server && !servers:
			servers = true
		default:
			continue
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b *Option) int { return cmp.Compare(a.Time(), b.Time()) })
	return out
}

// Sure is the probability that a way has to have of being sooner than a simpler
// one, before it is advised.
const Sure = 0.8

// Verdict is the answer.
type Verdict struct {
	Compress bool    // whether a codec pays
	Choice   *Option // what to do
	Raw      *Option // the best without a codec
	// Probability that the choice arrives no later than Raw; 1 if it is Raw.
	Probability float64
	// Sooner is how many times sooner the choice arrives: the middle, and the 90 %
	// interval around it.
	Sooner, Least, Most float64
	Belief              Belief // of the choice
	Why                 string
}

// Decide chooses by time to accuracy. Of ways that runs have shown to learn on such
// tasks it begins with the simplest, no codec, and goes on to one that is less
// simple where that is sooner with probability Sure.
func Decide(best []*Option, known map[string]Belief) Verdict {
	var raw *Option
	for _, o := range best {
		if o.Way() == "raw" {
			raw = o
			break
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(best), func(o *Option) bool { return known[o.Way()].Tasks == 0 })
	slices.SortStableFunc(candidates, func(a, b *Option) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.arrives(known), b.arrives(known)))
	})
	choice := raw
	var near *Option
	chance := 0.0
	for _, o := range candidates {
		if o.Way() == "raw" {
			continue
		}
		if p, _, _ := sooner(o, raw, known); p > chance {
			near, chance = o, p
		}
		if p, _, _ := sooner(o, choice, known); p >= Sure {
			choice = o
		}
	}
	v := Verdict{Choice: choice, Raw: raw, Compress: choice.Compressed(), Probability: 1, Sooner: 1, Least: 1, Most: 1, Belief: known[choice.Way()]}
	if choice != raw {
		p, log, spread := sooner(choice, raw, known)
		v.Probability, v.Sooner, v.Least, v.Most = p, math.Exp(log), math.Exp(log-1.645*spread), math.Exp(log+1.645*spread)
		v.Why = fmt.Sprintf("%s makes the step %.2g× shorter and takes %.2g× the updates: %.2g× sooner at the accuracy (90 %%: %.2g to %.2g), with probability %.2f.",
			choice.Way(), raw.Time()/choice.Time(), math.Exp(v.Belief.Log), v.Sooner, v.Least, v.Most, p)
	} else {
		v.Why = fmt.Sprintf("no way of which it is known how it learns is sooner with a probability of %.0f %% or more.", 100*Sure)
		if near != nil {
			v.Why += fmt.Sprintf(" Nearest to it is %s: %s a step against %s, with probability %.2f.", near.Way(), progress.Seconds(near.Time()), progress.Seconds(raw.Time()), chance)
		}
	}
	if fast := best[0]; known[fast.Way()].Tasks == 0 && fast.Time() < choice.Time()/(1+Band) {
		v.Why += fmt.Sprintf(" The shortest step, %s with %s, is one of whose learning nothing is known on such tasks: it is not advised.", progress.Seconds(fast.Time()), fast.Way())
	}
	return v
}

// software is what frameworks take in a step beside passes and messages, in seconds:
// 1 ms, and 1 ms for every doubling of workers, as in GRACE's small models (3, 5 and
// 7 ms with 2, 4 and 8 workers). Nobody knows which part of it a way saves, so that
// all are taken to have it: a step of microseconds proves nothing.
func (o *Option) software() float64 {
	return 1e-3 * (1 + math.Log2(float64(o.Config.Workers)))
}

// arrives is the middle of the time to the accuracy, in units of raw's updates.
func (o *Option) arrives(known map[string]Belief) float64 {
	return (o.Time() + o.software()) * math.Exp(known[o.Way()].Log)
}

// Against is the middle of an option's time to the accuracy, in units of Raw's.
func (v Verdict) Against(o *Option, known map[string]Belief) float64 {
	return o.arrives(known) / v.Raw.arrives(known)
}

// sooner is the probability that a arrives before b, and the logarithm of how many
// times sooner it does, with its standard deviation. Steps are off by their bands,
// each by itself, but for those of one way.
func sooner(a, b *Option, known map[string]Belief) (p, log, spread float64) {
	x, y := known[a.Way()], known[b.Way()]
	log = math.Log(b.arrives(known) / a.arrives(known))
	steps := (a.band()*a.band() + b.band()*b.band()) / (1.645 * 1.645)
	spread = math.Sqrt(x.Spread*x.Spread + y.Spread*y.Spread + steps)
	return 0.5 * math.Erfc(-log/spread/math.Sqrt2), log, spread
}

// band is how far the step may be off, nine out of ten.
func (o *Option) band() float64 {
	if o.Simulable() {
		return Band
	}
	return RoughBand
}
