package staleness

import "math"

// GapAware divides each coordinate of a gradient by how far the parameter has
// moved since, in units of its usual step (Barkai, Hakimi and Schuster 2020):
//
//	G = |w − w_sent|/C + 1      g ← g/G
//
// with C the running mean of the coordinate's movement in one update. Staleness
// counts updates; the gap knows that late in training they are small, and in a
// straight line no less late.
//
// Departures, the paper being at hand as recalled only: C is the mean of |Δw|,
// bias-corrected and forgetting at 1 − Beta, of what the parameters really did;
// a coordinate that never moved is left alone.
type GapAware struct {
	Beta float64 `doc:"how slowly the mean movement forgets, from 0 to below 1"`
}

// GapBound is the staleness-adaptive rate of Dutta et al. 2018, §5:
//
//	η = min{C/‖w − w_sent‖², η_max}
//
// with the schedule's rate as η_max: a gradient counts in full until the
// trainable parameters of the shard have moved further than √(C/η_max).
type GapBound struct {
	C float64 `spec:"c,show" doc:"rate × squared distance that is allowed, above 0"`
}

var (
	_ = Correctors.Add("gap_aware", "divide each coordinate by how far it has moved, in steps", GapAware{Beta: 0.99})
	_ = Correctors.Add("gap_bound", "bound the rate by C/‖w − w_sent‖²", GapBound{C: 0.01})
)

// Validate checks the range of Beta.
func (o GapAware) Validate() error { return fraction("beta", o.Beta) }

// Validate checks the range of C.
func (o GapBound) Validate() error { return positive("c", o.C) }

// Scale is 1.
func (GapAware) Scale(Past) float64 { return 1 }

// Scale is 1: the rest is the business of its Amender.
func (GapBound) Scale(Past) float64 { return 1 }

// Compares implements Amending.
func (GapAware) Compares() bool { return true }

// Compares implements Amending.
func (GapBound) Compares() bool { return true }

// Amender implements Amending.
func (o GapAware) Amender(n, _ int) Amender {
	return &gapAware{o, make([]float32, n), make([]float32, n), []float32{0, 0}}
}

// Amender implements Amending.
func (o GapBound) Amender(int, int) Amender { return gapBound(o) }

type gapAware struct {
	GapAware
	last, step []float32 // parameters at the update before; mean movement
	count      []float32 // updates before, and the weight the mean has gathered
}

func (o *gapAware) Amend(g, now, sent []float32, p Past) {
	beta := float32(o.Beta)
	switch {
	case o.count[1] == 0 && p.Update == 0:
		copy(o.last, now)
	case float32(p.Update) != o.count[0]:
		for i, x := range now {
			o.step[i] = beta*o.step[i] + (1-beta)*abs(x-o.last[i])
		}
		copy(o.last, now)
		o.count[1] = beta*o.count[1] + (1 - beta)
	}
	o.count[0] = float32(p.Update)
	for i := range g {
		if c := o.step[i]; c > 0 {
			g[i] /= abs(now[i]-sent[i])*o.count[1]/c + 1
		}
	}
}

func (o *gapAware) State() map[string][]float32 {
	return map[string][]float32{"last": o.last, "step": o.step, "count": o.count}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

type gapBound GapBound

func (o gapBound) Amend(g, now, sent []float32, p Past) {
	square := 0.0
	for i, x := range now {
		d := float64(x - sent[i])
		square += d * d
	}
	if most := o.C; p.Rate*square > most {
		scale := float32(most / (p.Rate * square))
		for i := range g {
			g[i] *= scale
		}
	}
}

func (gapBound) State() map[string][]float32 { return nil }
