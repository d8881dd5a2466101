package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/rng"
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
	// Near is, where nothing is advised, the way that comes nearest to it, Saves the share
	// of the time to the accuracy that it saves in the middle, and Chance the probability
	// that it does; nil: there is none.
	Near          *Option
	Saves, Chance float64
	Why           string
	// Step and RawStep are where a step of the choice and of Raw lies by what is known of
	// transports and devices, 90 %; nil: nobody asked.
	Step, RawStep *ask.Interval
	// Room is how many seconds longer the choice's step may take and still arrive as soon
	// as Raw, in the middle of what is believed; 0 if it is Raw.
	Room float64

	times float64 // standard deviation of the logarithm of the two steps' ratio; 0: nobody asked
}

// Answer is Decide, with intervals of so many draws for the steps of the choice and of
// Raw. A choice that is not Sure with these is left out, and the question is asked again.
func (q *Question) Answer(ctx context.Context, best []*Option, known map[string]Belief, draws int) (Verdict, error) {
	var near *Verdict // of those left out, the likeliest
	for {
		v := Decide(best, known)
		if draws < 1 {
			return v, nil
		}
		if err := q.widen(ctx, &v, known, draws); err != nil {
			return v, err
		}
		if v.Choice == v.Raw || v.Probability >= Sure {
			if near != nil {
				v.Near, v.Saves, v.Chance = near.Choice, near.saves(near.Choice, known), near.Probability
				v.explain(known)
			}
			return v, nil
		}
		if near == nil || v.Probability > near.Probability {
			near = &v
		}
		way := v.Choice.Way()
		best = slices.DeleteFunc(slices.Clone(best), func(o *Option) bool { return o.Way() == way })
	}
}

// widen predicts where the two steps lie. Draws are priced, not simulated: how wide they
// lie is all that is asked of them.
func (q *Question) widen(ctx context.Context, v *Verdict, known map[string]Belief, draws int) error {
	drawn := *q
	drawn.drawn = newPlans()
	around := func(o *Option, in *ask.Interval) *ask.Interval { return in.Scaled(o.Time() / in.Middle) }
	if v.Choice == v.Raw {
		in, err := ask.Propagate(ctx, v.Raw.Config, draws, drawn.priced)
		if err == nil {
			v.Step = around(v.Raw, in)
			v.RawStep = v.Step
		}
		return err
	}
	first, second, ratio, err := ask.Compared(ctx, v.Choice.Config, v.Raw.Config, draws, drawn.priced)
	if err != nil {
		return err
	}
	v.Step, v.RawStep = around(v.Choice, first), around(v.Raw, second)
	v.times = math.Log(ratio.High/ratio.Low) / (2 * 1.645)
	v.reckon(known)
	return nil
}

// priced is the predicted step of a configuration on the cluster that it describes, where
// overlap saves all that it can.
func (q *Question) priced(ctx context.Context, c config.Config) (float64, error) {
	there := *q
	there.Base = c
	p, err := newPricer(&there)
	if err != nil {
		return 0, err
	}
	price := p.ideal
	if !(&Option{Config: c}).Simulable() {
		price = func(c config.Config) (float64, float64, error) { return p.other(ctx, c) }
	}
	seconds, _, err := price(c)
	return seconds, err
}

// reckon fills in how much sooner the choice arrives than Raw, and why it is one.
func (v *Verdict) reckon(known map[string]Belief) {
	p, log, spread := sooner(v.Choice, v.Raw, known, v.times)
	wide := spread * doubt(v.Belief, known["raw"]).Quantile(0.95)
	v.Probability, v.Sooner, v.Least, v.Most = p, math.Exp(log), math.Exp(log-wide), math.Exp(log+wide)
	v.Room = v.Raw.arrives(known)/math.Exp(v.Belief.Log) - v.Choice.Time() - v.Choice.software()
	v.explain(known)
}

// saves is the share of the time to the accuracy that an option saves beside Raw.
func (v *Verdict) saves(o *Option, known map[string]Belief) float64 { return 1 - v.Against(o, known) }

// noticed is the least share of the time that counts as saved.
const noticed = 0.005

// explain words the verdict.
func (v *Verdict) explain(known map[string]Belief) {
	near := ""
	if v.Near != nil {
		near = fmt.Sprintf("%s saves %.0f %% with probability %.2f: below the bar of %.2f", v.Near.Way(), 100*v.Saves, v.Chance, Sure)
	}
	switch {
	case v.Choice != v.Raw:
		v.Why = fmt.Sprintf("%s reaches the accuracy %.2g× sooner than raw gradients (90 %%: %.2g to %.2g), with probability %.2f: its step is %.3g× as fast and it takes %.3g× the updates.",
			v.Choice.Way(), v.Sooner, v.Least, v.Most, v.Probability, v.Raw.Time()/v.Choice.Time(), math.Exp(v.Belief.Log))
		if near != "" {
			v.Why += " " + near + "."
		}
	case near != "" && v.Saves >= noticed:
		v.Why = near + "."
	case near != "":
		v.Why = fmt.Sprintf("Do not compress: no way that is known to learn saves time. The nearest is %s, which takes %.3g× as long.", v.Near.Way(), v.Against(v.Near, known))
	default:
		v.Why = "Do not compress: no other way is left whose learning on such tasks is known."
	}
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
		if p, _, _ := sooner(o, raw, known, 0); p > chance {
			near, chance = o, p
		}
		if p, _, _ := sooner(o, choice, known, 0); p >= Sure {
			choice = o
		}
	}
	v := Verdict{Choice: choice, Raw: raw, Compress: choice.Compressed(), Probability: 1, Sooner: 1, Least: 1, Most: 1, Belief: known[choice.Way()]}
	if choice != raw {
		v.reckon(known)
		return v
	}
	if near != nil {
		v.Near, v.Saves, v.Chance = near, v.saves(near, known), chance
	}
	v.explain(known)
	return v
}

// Order sorts options by their time to the accuracy, those of whose learning nothing is
// known last, the shortest step first.
func Order(options []*Option, known map[string]Belief) {
	slices.SortStableFunc(options, func(a, b *Option) int {
		x, y := known[a.Way()].Tasks == 0, known[b.Way()].Tasks == 0
		switch {
		case x && y:
			return cmp.Compare(a.Time(), b.Time())
		case x:
			return 1
		case y:
			return -1
		}
		return cmp.Compare(a.arrives(known), b.arrives(known))
	})
}

// First returns the probability with which each option is the first at the accuracy, of
// those of whose learning something is known: the share of draws of what is believed of
// updates and steps.
func First(options []*Option, known map[string]Belief) map[*Option]float64 {
	const draws = 2000
	out := map[*Option]float64{}
	key := rng.New(1, "advise first")
	for d := range uint64(draws) {
		var first *Option
		least := math.Inf(1)
		learn := map[string]float64{} // a way learns alike however it is sent
		for i, o := range options {
			b := known[o.Way()]
			if b.Tasks == 0 {
				continue
			}
			if _, drawn := learn[b.Way]; !drawn {
				learn[b.Way] = b.Spread * doubt(b, known["raw"]).Quantile(min(max(key.With(d).With(0).Float64(uint64(len(learn))), 1e-9), 1-1e-9))
			}
			x := math.Log(o.arrives(known)) + learn[b.Way] + Band/1.645*key.With(d).With(1).Norm(uint64(i))
			if x < least {
				first, least = o, x
			}
		}
		if first != nil {
			out[first] += 1.0 / draws
		}
	}
	return out
}

// software is what frameworks take in a step beside passes and messages, in seconds:
// 1 ms, and 1 ms for every doubling of workers, as in GRACE's small models (3, 5 and
// 7 ms with 2, 4 and 8 workers). Nobody knows which part of it a way saves, so that
// all are taken to have it: a step of microseconds proves nothing. Constant step says
// it of the cluster itself, and then it is in the step.
func (o *Option) software() float64 {
	if o.Config.Constants.Step != 0 {
		return 0
	}
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
// times sooner it does, with its standard deviation. Steps are off by Band,
// each by itself, and their ratio by times, the standard deviation of its logarithm.
func sooner(a, b *Option, known map[string]Belief, times float64) (p, log, spread float64) {
	x, y := known[a.Way()], known[b.Way()]
	log = math.Log(b.arrives(known) / a.arrives(known))
	const steps = 2 * Band * Band / (1.645 * 1.645)
	spread = math.Sqrt(x.Spread*x.Spread + y.Spread*y.Spread + steps + times*times)
	return doubt(x, y).CDF(log / spread), log, spread
}

// doubt is the distribution of what two beliefs leave open, in units of their spread:
// Student's, as how much tasks differ is itself known from few. It has as many degrees
// of freedom as the belief of fewer tasks.
func doubt(a, b Belief) distuv.StudentsT {
	few := math.Inf(1)
	for _, x := range []Belief{a, b} {
		if x.Way != "raw" { // which is not estimated
			few = min(few, float64(max(1, x.Tasks))-1+priorWeight)
		}
	}
	return distuv.StudentsT{Sigma: 1, Nu: min(few, 100)}
}
