package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
)

// Crossing is where two configurations change places over a swept key.
type Crossing struct {
	Key   string      `json:"key"`   // the swept key, or the option of a key: "codec.keep"
	Of    string      `json:"of"`    // "seconds", "bytes" or "score", in which they are compared
	Below string      `json:"below"` // the better configuration below
	Above string      `json:"above"`
	At    store.Maybe `json:"at"` // in the median over seeds and draws, in the unit of the key
	// Low and High are where nine cases of ten lie, over the same seeds and draws for both.
	Low  store.Maybe `json:"low"`
	High store.Maybe `json:"high"`

	word string  // At, in words
	y    float64 // what the figure shows there
}

// cross finds where the best lines change places. Below and above, the order of the two is
// told by seeds and draws.
func (v *View) cross() {
	v.Crossings, v.Answers = nil, nil
	for _, q := range quantities {
		for i, a := range v.lines {
			for _, b := range v.lines[:i] {
				v.crossingsOf(q, a, b)
			}
		}
	}
	slices.SortStableFunc(v.Crossings, func(a, b Crossing) int {
		return cmp.Or(cmp.Compare(index(a.Of), index(b.Of)), cmp.Compare(a.At, b.At))
	})
	for _, c := range v.Crossings {
		v.Answers = append(v.Answers, v.sentence(c))
	}
}

func index(of string) int {
	return slices.IndexFunc(quantities, func(q quantity) bool { return q.name == of })
}

// sentence words a crossing.
func (v *View) sentence(c Crossing) string {
	word := func(x store.Maybe) string { return v.axis.word(float64(x), v.lines[0].points[0].config) }
	over := v.Key
	if v.Where != "" {
		over += ", " + v.Where
	}
	return fmt.Sprintf("Over %s: %s %s above %s (90 %%: %s to %s), %s below.", over, c.Above, quantities[index(c.Of)].better, c.word, word(c.Low), word(c.High), c.Below)
}

// told is −1 where seeds and draws tell that a is better than b, 1 where they tell that b
// is, and 0 otherwise. With one seed, draws alone tell.
func (q quantity) told(t *Task, a, b *Config) int {
	k := q.contest(t)
	if k == nil {
		return 0
	}
	if a.Alone != b.Alone {
		return q.againstAlone(t, a, b)
	}
	if !a.Choice() || !b.Choice() || k.level(a, b) {
		return 0
	}
	if k.tells(a, b) {
		return k.order(a, b)
	}
	return byDraws(t, k, a, b)
}

// byDraws is the order that draws tell.
func byDraws(t *Task, k *contest, a, b *Config) int {
	if k != t.soonest || t.draws == 0 {
		return 0
	}
	switch p := isBefore(t, a, b); {
	case p >= 1-stats.Level:
		return -1
	case p <= stats.Level:
		return 1
	}
	return 0
}

// againstAlone is told of a choice and one worker alone, which compete in time only.
func (q quantity) againstAlone(t *Task, a, b *Config) int {
	choice, alone, sign := a, b, 1
	if a.Alone {
		choice, alone, sign = b, a, -1
	}
	if q.contest(t) != t.soonest || !choice.Choice() || t.Target.Asked() != isReached(t) {
		return 0
	}
	if len(choice.Trials) == 1 || len(alone.Trials) == 1 {
		if math.Abs(choice.time(t)-alone.time(t)) <= max(evaluated(t, choice, seconds), evaluated(t, alone, seconds)) && isReached(t) {
			return 0
		}
		return sign * byDraws(t, t.soonest, choice, alone)
	}
	at := func(x *Trial) float64 { return reachedIn(t, x) }
	if isReached(t) {
		at = func(x *Trial) float64 { return wayTo(t, x, seconds).at }
	}
	sooner, told := against(t, choice, alone, at)
	switch {
	case !told:
		return 0
	case sooner:
		return -sign
	}
	return sign
}

// first reports whether a line is the best of the choices at a place; one worker alone has
// no others to be better than.
func (v *View) first(q quantity, l *line, x float64) bool {
	if l.alone {
		return true
	}
	best, at := math.Inf(1), (*line)(nil)
	for _, o := range v.lines {
		p := o.at(x)
		if o.alone || p == nil || !p.config.Choice() {
			continue
		}
		if m := q.contest(p.task).middle(p.config); m < best {
			best, at = m, o
		}
	}
	return at == l
}

// crossingsOf adds the places where two lines cross that are the best where they lead.
func (v *View) crossingsOf(q quantity, a, b *line) {
	type both struct{ a, b place }
	var shared []both
	for _, p := range a.points {
		if o := b.at(p.x); o != nil && o.task == p.task {
			shared = append(shared, both{p, *o})
		}
	}
	was, from := 0, 0
	for i, p := range shared {
		order := q.told(p.a.task, p.a.config, p.b.config)
		if order == 0 {
			continue
		}
		if was == -order {
			var x []place
			var y []place
			for _, s := range shared[from : i+1] {
				x, y = append(x, s.a), append(y, s.b)
			}
			if order < 0 { // b leads first
				v.crossing(q, b, a, y, x)
			} else {
				v.crossing(q, a, b, x, y)
			}
		}
		was, from = order, i
	}
}

// crossing adds where the line that leads at the first of some places is overtaken before
// the last of them, if both are the best there.
func (v *View) crossing(q quantity, below, above *line, x, y []place) {
	first, last := x[0].x, x[len(x)-1].x
	if !v.first(q, below, first) || !v.first(q, above, last) {
		return
	}
	var lows, middles, highs []float64
	for _, seed := range seedsOf(append(slices.Clone(x), y...)) {
		for d := range q.factors(x[0].config) {
			differences := make([]float64, len(x))
			for i := range x {
				differences[i] = q.difference(x[i], y[i], seed, d)
			}
			low, at, high := v.overtaken(x, differences)
			lows, middles, highs = append(lows, low), append(middles, at), append(highs, high)
		}
	}
	if len(middles) == 0 {
		return
	}
	slices.Sort(lows)
	slices.Sort(highs)
	at := stats.Median(middles)
	c := Crossing{Key: v.Key, Of: q.name, Below: below.label, Above: above.label, At: store.Maybe(at),
		Low: store.Maybe(quantile(lows, 0.05)), High: store.Maybe(quantile(highs, 0.95)), word: v.axis.word(at, x[0].config)}
	c.y = v.shownAt(q, x, at)
	v.Crossings = append(v.Crossings, c)
}

// seedsOf are the seeds that all places have.
func seedsOf(places []place) (out []uint64) {
	count := map[uint64]int{}
	for _, p := range places {
		for _, t := range p.config.Trials {
			count[t.Config.Seed]++
		}
	}
	for seed, n := range count {
		if n == len(places) {
			out = append(out, seed)
		}
	}
	slices.Sort(out)
	return out
}

// difference is that of two places with one seed and one draw, below 0 where the first is
// better: of logarithms where ratios count.
func (q quantity) difference(a, b place, seed uint64, draw int) float64 {
	of := func(p place) float64 {
		i := slices.IndexFunc(p.config.Trials, func(t *Trial) bool { return t.Config.Seed == seed })
		x := q.value(p.task, p.config.Trials[i])
		if f := q.factors(p.config); draw < len(f) {
			x *= f[draw]
		}
		if q.ratios {
			return math.Log(max(x, math.SmallestNonzeroFloat64))
		}
		return x
	}
	return of(a) - of(b)
}

// overtaken is where differences rise above 0: between which places where one of the two
// is never there, and otherwise by interpolation. Where they are above from the
// beginning it is the first place, and where they stay below the last one.
func (v *View) overtaken(places []place, differences []float64) (low, at, high float64) {
	to, from := func(x float64) float64 { return x }, func(x float64) float64 { return x }
	if v.log {
		to, from = math.Log, math.Exp
	}
	was := -1
	for i, d := range differences {
		if math.IsNaN(d) {
			continue
		}
		if d >= 0 && was < 0 {
			return places[i].x, places[i].x, places[i].x
		}
		if d >= 0 {
			x, y := places[was].x, places[i].x
			before := differences[was]
			if !finite(before) || !finite(d) {
				return x, from((to(x) + to(y)) / 2), y
			}
			at := from(to(x) + (to(y)-to(x))*before/(before-d))
			return at, at, at
		}
		was = i
	}
	end := places[len(places)-1].x
	return end, end, end
}

// shownAt is what a figure's line through places is at.
func (v *View) shownAt(q quantity, places []place, x float64) float64 {
	y := func(p place) float64 { m, _, _ := q.shown(p.task, p.config); return m }
	for i := 1; i < len(places); i++ {
		a, b := places[i-1], places[i]
		if x > b.x {
			continue
		}
		w := (x - a.x) / (b.x - a.x)
		if v.log {
			w = math.Log(x/a.x) / math.Log(b.x/a.x)
		}
		p, r := y(a), y(b)
		if q.ratios {
			return math.Exp(math.Log(p) + w*(math.Log(r)-math.Log(p)))
		}
		return p + w*(r-p)
	}
	return y(places[len(places)-1])
}

// sweep finds the views of the report: those of several tasks stand before these, and those
// of one among its figures.
func (r *Report) sweep() {
	r.Views, r.Winners = nil, nil
	var kinds []string
	of := map[string][]*Task{}
	for _, t := range r.Tasks {
		k := taskKey(t.Configs[0].Runs[0]) + fmt.Sprint(t.Virtual)
		if of[k] == nil {
			kinds = append(kinds, k)
		}
		of[k] = append(of[k], t)
		t.views = nil
	}
	for _, k := range kinds {
		for _, v := range views(of[k]) {
			for _, t := range v.tasks {
				t.views = append(t.views, v)
			}
			if len(v.tasks) > 1 {
				r.Views = append(r.Views, v)
			}
		}
		if w := winners(of[k]); w != nil {
			r.Winners = append(r.Winners, w)
		}
	}
	for _, t := range r.Tasks {
		t.draw()
	}
}

// Swept are the crossings of views over several tasks and over one, in sentences.
func (r *Report) Swept() (out []string) {
	for _, t := range r.Tasks {
		for _, v := range t.views {
			for _, s := range v.Answers {
				if len(r.Tasks) > 1 && len(v.tasks) == 1 {
					s = strings.Replace(s, "Over ", t.Title()+", over ", 1)
				}
				if !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}
