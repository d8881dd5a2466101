// Package timing is what computing takes on a virtual clock: the speed of devices, laws
// by which steps take unlike times, workers that are slow for good, and what a use of a
// codec takes. It says nothing about learning.
package timing

import (
	"errors"
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
	FLOPS  float64 // of a device, floating-point operations per second
	Jitter float64 // σ of a lognormal factor on every step's compute time
	Law    Law     // of a further factor; nil: none
	Slow   Slow    // workers that are slower, for good
	Spread float64 // σ of a lognormal factor on a worker's speed, for good

	// Step is what software of a step takes longer on several workers, once and once
	// more for every doubling of them; Call what a collective call takes for every
	// doubling of the ranks: codecs whose payloads are gathered make one a tensor.
	Step, Call time.Duration

	// Input is how many samples a second the workers of a node read together, beside
	// their passes: a limit of how fast these follow each other. Jitter is on its times,
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
// is not Slow.
func (t Timing) Cost(flops float64, seed uint64, rank, step int) time.Duration {
	if t.FLOPS <= 0 {
		return 0
	}
	s := flops / t.FLOPS * t.jitter(seed, rank, step)
	if t.Law != nil {
		s *= t.Law.Factor(rng.New(seed, "law").With(uint64(rank)).With(uint64(step)))
	}
	if t.Spread > 0 {
		s *= Lognormal{t.Spread}.factor(rng.New(seed, "spread").Norm(uint64(rank)))
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
	return seconds(samples / rate * t.jitter(seed, rank, step))
}

// jitter is the factor on all times of a rank's step.
func (t Timing) jitter(seed uint64, rank, step int) float64 {
	if t.Jitter <= 0 {
		return 1
	}
	return Lognormal{t.Jitter}.factor(rng.New(seed, "jitter").With(uint64(rank)).Norm(uint64(step)))
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
// times as long, those before them as the next entry says.
type Slow []struct {
	Count  int
	Factor float64
}

// ParseSlow reads "1x10" (one worker, ten times as slow), "1x100+3x2" or "none".
func ParseSlow(text string) (Slow, error) {
	if text == "none" {
		return nil, nil
	}
	var s Slow
	for _, part := range strings.Split(text, "+") {
		n, f, ok := strings.Cut(strings.TrimSpace(part), "x")
		count, err1 := strconv.Atoi(n)
		factor, err2 := strconv.ParseFloat(f, 64)
		if !ok || err1 != nil || err2 != nil || count < 1 || !(factor > 0) || math.IsInf(factor, 0) {
			return nil, fmt.Errorf("want none, or how many workers and how much slower, such as 1x10 or 1x100+3x2, not %q", text)
		}
		s = append(s, struct {
			Count  int
			Factor float64
		}{count, factor})
	}
	if s == nil {
		return nil, errors.New("want none, or how many workers and how much slower, such as 1x10 or 1x100+3x2")
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
		parts = append(parts, fmt.Sprintf("%dx%s", e.Count, strconv.FormatFloat(e.Factor, 'f', -1, 64)))
	}
	return strings.Join(parts, "+")
}

// Workers is how many workers are slow.
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
