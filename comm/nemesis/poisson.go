package nemesis

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/internal/rng"
)

// Poisson is faults that come independently of one another.
//
//	P(none within t) = exp(−t/every)
//
// Each is of one of the kinds, on one of the ranks, and lasts a time of mean for, drawn by
// the exponential law. All draws are addressed by seed and by the number of the fault.
// Paper: failures of clusters are close to it (Schroeder and Gibson 2006, who find Weibull
// laws of shape 0.7 to 0.8 fit yet better).
// Tuning: every is the mean time between failures of a machine over the number of ranks.
// Cost: that of the faults.
type Poisson struct {
	Every time.Duration `spec:",show" doc:"mean time from one fault to the next"`
	Of    []string      `doc:"which: kill, rejoin, pause, partition, one_way, loss, duplicate, reorder, delay, slow, resend; with their defaults"`
	Ranks []string      `doc:"on whom: [w*,s0]"`
	For   time.Duration `doc:"how long each lasts, on average"`
	From  time.Duration `doc:"when the first may come"`
	Until time.Duration `doc:"when the last may come"`
	Seed  uint64        `doc:"of the draws; 0: the run's"`
}

var _ = Faults.Add("poisson", "faults at random, at a rate", Poisson{
	Every: time.Minute, Of: []string{"kill", "pause", "partition"}, Ranks: []string{"w*"}, For: time.Second, Until: time.Hour,
})

// mostDrawn bounds a schedule that a law draws.
const mostDrawn = 1 << 20

// Validate checks the options.
func (f Poisson) Validate() error {
	var errs []error
	if f.Every <= 0 {
		errs = append(errs, fmt.Errorf(`option "every": want a duration above 0, not %v`, f.Every))
	} else if n := float64(f.Until-f.From) / float64(f.Every); n > mostDrawn/2 {
		errs = append(errs, fmt.Errorf("every=%v until=%v are some %.0f faults, want %d at most", f.Every, f.Until, n, mostDrawn/2))
	}
	if f.For <= 0 || f.From < 0 || f.Until < f.From || f.Until > horizon || f.For > horizon {
		errs = append(errs, errors.New("want a duration above 0 for each fault, and until not before from"))
	}
	if len(f.Of) == 0 || len(f.Ranks) == 0 {
		errs = append(errs, errors.New(`options "of" and "ranks" want a kind and a rank at least`))
	}
	for _, name := range f.Of {
		_, err := single(name, "w0", 0, time.Second)
		errs = append(errs, err)
	}
	for _, name := range f.Ranks {
		errs = append(errs, named(name))
	}
	return errors.Join(errs...)
}

// single is a fault of a kind, on a rank.
func single(kind, rank string, at, length time.Duration) (Fault, error) {
	links := Links{From: []string{rank}, At: at, For: length}
	switch p, ok := Faults.Proto(kind); f := p.(type) {
	case Kill:
		return Kill{rank, at}, nil
	case Rejoin:
		return Rejoin{rank, at}, nil
	case Pause:
		return Pause{rank, at, length}, nil
	case Partition:
		return Partition{Of: links.From, At: at, For: length}, nil
	case Loss:
		f.Links = links
		return f, nil
	case Duplicate:
		f.Links = links
		return f, nil
	case Reorder:
		f.Links = links
		return f, nil
	case Delay:
		f.Links = links
		return f, nil
	case Slow:
		f.Links = links
		return f, nil
	case Resend:
		f.Links = links
		return f, nil
	default:
		if !ok && kind == "one_way" {
			return Partition{Of: links.From, OneWay: true, At: at, For: length}, nil
		}
		return nil, fmt.Errorf(`option "of": want kill, rejoin, pause, partition, one_way, loss, duplicate, reorder, delay, slow or resend, not %q`, kind)
	}
}

// Draw implements Fault.
func (f Poisson) Draw(w World) ([]Fault, error) {
	set, err := w.set(f.Ranks)
	if err != nil {
		return nil, err
	}
	var ranks []int
	for r := range w.Ranks() {
		if set.Has(r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return nil, fmt.Errorf("there are no ranks %v", f.Ranks)
	}
	key := w.Key
	if f.Seed != 0 {
		key = rng.New(f.Seed, "faults")
	}
	var out []Fault
	at := float64(f.From)
	for n := uint64(0); len(out) < mostDrawn; n++ {
		k := key.With(n)
		at += float64(k.Exp(0) * float64(f.Every))
		if at > float64(f.Until) {
			break
		}
		length := time.Duration(math.Max(1, k.Exp(1)*float64(f.For)))
		one, err := single(f.Of[k.IntN(2, len(f.Of))], w.Name(ranks[k.IntN(3, len(ranks))]), time.Duration(at), length)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
