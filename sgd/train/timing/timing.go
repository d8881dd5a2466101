// Package timing is what computing takes on a virtual clock: the speed of devices, laws
// by which steps take unlike times, workers that are slow for good, and what a use of a
// codec takes. It says nothing about learning.
package timing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

// Timing prices computing on a virtual clock. It says nothing about learning.
type Timing struct {
	FLOPS float64 // of a device, floating-point operations per second
	Law   Law     // of the factor on all times of a worker's step; nil: none
	Slow  Slow    // workers that are slower, for good

	// Step is what software of a step takes longer on several workers, once and once
	// more for every doubling of them; Call what a collective call takes for every
	// doubling of the ranks: codecs whose payloads are gathered make one a tensor.
	Step, Call time.Duration

	// Input is how many samples a second the workers of a node read together, beside
	// their passes: a limit of how fast these follow each other. Law is on its times,
	// too. 0: there is none.
	Input float64

	// Codec is how long a use of a codec takes. nil: nothing costs any time. It is
	// asked once for every block of a job and must answer alike each time.
	Codec func(Coding) time.Duration
	// Apply is how many bytes of payload a server decodes and adds a second, one
	// push behind the other, in place of what Codec says of that. 0: as Codec says.
	Apply float64
}

// Cost is the virtual time of flops operations by rank in step, on a device that
// is not among the last workers that are Slow.
func (t Timing) Cost(flops float64, seed uint64, rank, step int) time.Duration {
	if t.FLOPS <= 0 {
		return 0
	}
	s := flops / t.FLOPS * t.factor(seed, rank, step)
	if sigma := t.Slow.Sigma(); sigma > 0 {
		s *= Lognormal{sigma}.factor(rng.New(seed, "spread").Norm(uint64(rank)))
	}
	return seconds(s)
}

// Software is what software of a step takes on so many workers; 0 on one.
func (t Timing) Software(workers int) time.Duration {
	if workers < 2 {
		return 0
	}
	return time.Duration(float64(t.Step) * (1 + portable.Log2(float64(workers))))
}

// Calls is what so many collective calls take on so many ranks.
func (t Timing) Calls(calls, ranks int) time.Duration {
	return time.Duration(float64(t.Call) * float64(calls) * portable.Log2(float64(max(1, ranks))))
}

// Reading is the virtual time in which rank reads samples for a step, at that many a
// second; 0 at no rate.
func (t Timing) Reading(samples, rate float64, seed uint64, rank, step int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return seconds(samples / rate * t.factor(seed, rank, step))
}

// factor is the factor on all times of a rank's step. A lognormal law has one stream of
// draws for each rank.
func (t Timing) factor(seed uint64, rank, step int) float64 {
	switch l := t.Law.(type) {
	case nil:
		return 1
	case Lognormal:
		return l.factor(rng.New(seed, "jitter").With(uint64(rank)).Norm(uint64(step)))
	}
	return t.Law.Factor(rng.New(seed, "law").With(uint64(rank)).With(uint64(step)))
}

// factor is what a standard normal draw makes.
func (l Lognormal) factor(z float64) float64 {
	return portable.Exp(float64(l.Sigma*z) - float64(l.Sigma*l.Sigma/2))
}

// At is the time in which so many bytes, or whatever there is, pass at a rate a second;
// 0 at no rate.
func At(bytes, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return seconds(bytes / rate)
}

func seconds(s float64) time.Duration { return time.Duration(math.Min(s*1e9, math.MaxInt64/4)) }

// Slow lists workers that are slower than the others: the last Count take Factor
// times as long, those before them as the next entry says. An entry with a Sigma draws
// a lognormal factor of that σ for every worker, the same in all its steps.
type Slow []struct {
	Count         int
	Factor, Sigma float64
}

const slowForm = "want none, how many workers and how much slower, such as 1x10 or 1x100+3x2, or a factor drawn for every worker, lognormal(sigma=0.3)"

// ParseSlow reads "1x10" (one worker, ten times as slow), "1x100+3x2",
// "lognormal(sigma=0.3)", both kinds joined by +, or "none".
func ParseSlow(text string) (Slow, error) {
	if text == "none" {
		return nil, nil
	}
	var s Slow
	for _, part := range strings.Split(text, "+") {
		part = strings.TrimSpace(part)
		e := struct {
			Count         int
			Factor, Sigma float64
		}{}
		if strings.HasPrefix(part, "lognormal") {
			l, err := Laws.Parse(part)
			if err != nil {
				return nil, err
			}
			drawn, ok := l.(Lognormal)
			if !ok || s.Sigma() > 0 {
				return nil, fmt.Errorf("%s, once; not %q", slowForm, text)
			}
			if e.Sigma = drawn.Sigma; e.Sigma > 0 {
				s = append(s, e)
			}
			continue
		}
		n, f, ok := strings.Cut(part, "x")
		var err1, err2 error
		e.Count, err1 = strconv.Atoi(n)
		e.Factor, err2 = strconv.ParseFloat(f, 64)
		if !ok || err1 != nil || err2 != nil || e.Count < 1 || !(e.Factor > 0) || math.IsInf(e.Factor, 0) {
			return nil, fmt.Errorf("%s; not %q", slowForm, text)
		}
		s = append(s, e)
	}
	return s, nil
}

// String is the text ParseSlow reads.
func (s Slow) String() string {
	if len(s) == 0 {
		return "none"
	}
	var parts []string
	for _, e := range s {
		if e.Sigma > 0 {
			parts = append(parts, fmt.Sprintf("lognormal(sigma=%s)", strconv.FormatFloat(e.Sigma, 'g', -1, 64)))
			continue
		}
		parts = append(parts, fmt.Sprintf("%dx%s", e.Count, strconv.FormatFloat(e.Factor, 'f', -1, 64)))
	}
	return strings.Join(parts, "+")
}

// Sigma is σ of the factor that is drawn for every worker; 0: none is.
func (s Slow) Sigma() float64 {
	for _, e := range s {
		if e.Sigma > 0 {
			return e.Sigma
		}
	}
	return 0
}

// Workers is how many workers are slow, beside those whose factor is drawn.
func (s Slow) Workers() (n int) {
	for _, e := range s {
		n += e.Count
	}
	return n
}

// Times is how many times as long a worker takes, counted from the last one.
func (s Slow) Times(fromLast int) float64 {
	for _, e := range s {
		if fromLast < e.Count {
			return e.Factor
		}
		fromLast -= e.Count
	}
	return 1
}
