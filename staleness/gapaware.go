package staleness

import "math"

// GapAware divides each coordinate of a gradient by how far the parameter has
// moved since, in units of a usual step at full rate (Barkai, Hakimi and Schuster
// 2020):
//
//	G = |w − w_sent|/C + 1      g ← g/G
//	C = η_max·√m                m ← β·m + (1−β)·v²
//
// v is what an update subtracted from the parameter, in units of its rate: the
// velocity with a momentum optimizer, the gradient with sgd. m starts at 0 and is
// bias-corrected, as adam's is. η_max is the largest rate so far. Staleness counts
// updates; the gap knows that at a tenth of the rate ten of them are one.
//
// A coordinate that never moved is left alone. An update at rate 0 says nothing
// of v and leaves m as it is.
//
// Tuning: none is needed; beta=0.999 as in the paper.
//
// Cost: eight bytes of state an element at the server, and the parameters that
// each worker was sent.
type GapAware struct {
	Beta float64 `doc:"how slowly the mean square of a step forgets (γ in the paper, 0.999), from 0 to below 1"`
}

// GapBound is the staleness-adaptive rate of Dutta et al. 2018, §5:
//
//	η = min{C/‖w − w_sent‖², η_max}
//
// with the schedule's rate as η_max: a gradient counts in full until the
// trainable parameters of the shard have moved further than √(C/η_max).
//
// Tuning: c by the squared distance that an update moves, times the rate.
//
// Cost: the parameters that each worker was sent, and one pass more a gradient.
type GapBound struct {
	C float64 `spec:"c,show" doc:"rate × squared distance that is allowed, above 0"`
}

var (
	_ = Correctors.Add("gap_aware", "divide each coordinate by how far it has moved, in steps at full rate", GapAware{Beta: 0.999})
	_ = Correctors.Add("gap_bound", "bound the rate by C/‖w − w_sent‖²", GapBound{C: 0.01})
)

// Validate checks the range of Beta.
func (o GapAware) Validate() error { return fraction("beta", o.Beta) }

// Validate checks the range of C.
func (o GapBound) Validate() error { return positive("c", o.C) }

// Scale is 1.
func (GapAware) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (GapAware) Traits() CorrectorTraits { return CorrectorTraits{Amends: true, Compares: true} }

// Scale is 1: the rest is the business of its Amender.
func (GapBound) Scale(Past) float64 { return 1 }

// Traits implements Corrector.
func (GapBound) Traits() CorrectorTraits { return CorrectorTraits{Amends: true, Compares: true} }

// Amender implements Amending.
func (o GapAware) Amender(n, _ int) Amender {
	return &gapAware{o, make([]float32, n), make([]float32, n), make([]float32, 4)}
}

// Amender implements Amending.
func (o GapBound) Amender(int, int) Amender { return gapBound(o) }

type gapAware struct {
	GapAware
	last, square []float32 // parameters before the last update; mean of v²
	clock        []float32 // see below
}

// What clock holds. Updates are counted modulo 2²⁴, which a float32 holds exactly.
const (
	atUpdate = iota // 1 + updates made, when last was taken; 0: never
	lastRate        // of the update that came after
	mostRate        // of all updates
	gathered        // weight of the mean: 1 in the end
)

func (o *gapAware) Amend(g, now, sent []float32, p Past) {
	if at := float32(1 + p.Update%(1<<24)); at != o.clock[atUpdate] {
		if rate := o.clock[lastRate]; o.clock[atUpdate] > 0 && rate > 0 {
			o.moved(now, rate)
		}
		copy(o.last, now)
		o.clock[atUpdate], o.clock[lastRate] = at, float32(p.Rate)
		o.clock[mostRate] = max(o.clock[mostRate], float32(p.Rate))
	}
	if o.clock[gathered] == 0 {
		return // nothing has moved
	}
	now, sent, square := now[:len(g)], sent[:len(g)], o.square[:len(g)]
	most, unbias := o.clock[mostRate], 1/o.clock[gathered]
	for i := range g {
		if c := most * root(square[i]*unbias); c > 0 {
			g[i] /= abs(now[i]-sent[i])/c + 1
		}
	}
}

// moved takes up the update that made now of last at a rate.
func (o *gapAware) moved(now []float32, rate float32) {
	beta := float32(o.Beta)
	for i, x := range now {
		v := (o.last[i] - x) / rate
		o.square[i] = float32(beta*o.square[i]) + float32((1-beta)*v*v)
	}
	o.clock[gathered] = float32(beta*o.clock[gathered]) + (1 - beta)
}

func (o *gapAware) State() map[string][]float32 {
	return map[string][]float32{"last": o.last, "square": o.square, "clock": o.clock}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

type gapBound GapBound

func (o gapBound) Amend(g, now, sent []float32, p Past) {
	square := 0.0
	for i, x := range now {
		d := float64(x - sent[i])
		square += float64(d * d)
	}
	if most := o.C; p.Rate*square > most {
		scale := float32(most / (p.Rate * square))
		for i := range g {
			g[i] *= scale
		}
	}
}

func (gapBound) State() map[string][]float32 { return nil }
