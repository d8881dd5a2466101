package ask

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/experiments/config"
)

// Interval is where a time lies in nine cases of ten, by what is known of the
// parameters it depends on. Its unit is that of what was asked.
type Interval struct {
	Low       float64 `json:"low"`    // 5 % are below
	Middle    float64 `json:"middle"` // half are
	High      float64 `json:"high"`   // 5 % are above
	Draws     int     `json:"draws"`
	Transport string  `json:"transport"`      // whose values and spreads were drawn
	Node      string  `json:"node,omitempty"` // likewise; empty: nothing of it was drawn
}

// Scaled is the interval of something that is in proportion.
func (i Interval) Scaled(by float64) *Interval {
	i.Low, i.Middle, i.High = i.Low*by, i.Middle*by, i.High*by
	return &i
}

// String is "3.1–3.6"; "–" for nil.
func (i *Interval) String() string {
	if i == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g–%.4g", i.Low, i.High)
}

// Note says what the interval rests on.
func (i *Interval) Note() string {
	return fmt.Sprintf("90 %%: of %d draws from what was measured of %s nine in ten lie there; the times beside it are those of the virtual clock, without what is not known", i.Draws, i.From())
}

// From names the transport and the node whose values were drawn.
func (i *Interval) From() string {
	of := "transport " + i.Transport
	switch i.Node {
	case "":
		return of + " (gradlab help " + i.Transport + ")"
	case i.Transport:
		return of + " and node " + i.Node + " (gradlab help " + i.Node + ")"
	}
	return of + " and node " + i.Node + " (gradlab help " + i.Transport + ", help " + i.Node + ")"
}

// Covers says whether a value lies in the interval.
func (i Interval) Covers(x float64) bool { return i.Low <= x && x <= i.High }

// Draws is how many answer an ordinary question within seconds.
const Draws = 32

// Smaller is a configuration of few enough workers to be simulated many times, with
// as many on a host and the same share of servers: how wide an interval is, as a part
// of its middle, hardly depends on their number.
func Smaller(c config.Config) config.Config {
	const few = 16
	n := max(few/c.NetworkPerHost, 2) * c.NetworkPerHost
	if c.Workers <= n {
		return c
	}
	c.Servers = max(1, c.Servers*n/c.Workers)
	c.Workers = n
	return c
}

// Propagate draws a configuration's uncertain parameters (see config.Spread), asks for
// the time of each draw, and says where they lie. time gives seconds, is called by
// several goroutines at once and must answer alike each time. With constants.overlap
// below 1 it is asked twice, with overlap and without, and what overlap saves counts in
// part. Draws are points of low discrepancy, so few tell much, and always the same.
//
// Reference of the points: Roberts 2018, The unreasonable effectiveness of quasirandom
// sequences, generalised golden ratio.
func Propagate(ctx context.Context, c config.Config, draws int, time func(context.Context, config.Config) (float64, error)) (*Interval, error) {
	out, of, err := draw(ctx, []config.Config{c}, draws, time)
	if err != nil {
		return nil, err
	}
	return interval(out[0], of), nil
}

// Compared are the times of two configurations on one cluster, each with where it lies,
// and how many times the first is the second's. A draw is of one cluster: what
// slows both down does not widen their ratio.
func Compared(ctx context.Context, a, b config.Config, draws int, time func(context.Context, config.Config) (float64, error)) (first, second, ratio *Interval, err error) {
	out, of, err := draw(ctx, []config.Config{a, b}, draws, time)
	if err != nil {
		return nil, nil, nil, err
	}
	ratios := make([]float64, draws)
	for i := range ratios {
		ratios[i] = out[0][i] / out[1][i]
	}
	return interval(out[0], of), interval(out[1], of), interval(ratios, of), nil
}

// interval is where nine in ten of the draws lie.
func interval(times []float64, of *config.Spread) *Interval {
	sorted := slices.Sorted(slices.Values(times))
	i := &Interval{Low: quantile(sorted, 0.05), Middle: quantile(sorted, 0.5), High: quantile(sorted, 0.95), Draws: len(times), Transport: of.Transport.Name}
	if of.Node != nil {
		i.Node = of.Node.Name
	}
	return i
}

// spreadOf is [config.Resolved.Spread] of a configuration.
func spreadOf(c config.Config) (*config.Spread, error) {
	r, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	return r.Spread()
}

// draw asks for the times of configurations, draw by draw. Draws of all are of the same
// quantiles, parameter by parameter.
func draw(ctx context.Context, all []config.Config, draws int, time func(context.Context, config.Config) (float64, error)) (out [][]float64, of *config.Spread, err error) {
	if draws < 1 {
		return nil, nil, fmt.Errorf("%d draws tell no interval: want at least 1", draws)
	}
	spreads, most := make([]*config.Spread, len(all)), 0
	for i, c := range all {
		if spreads[i], err = spreadOf(c); err != nil {
			return nil, nil, err
		}
		out = append(out, make([]float64, draws))
		most = max(most, spreads[i].Len())
	}
	errs := make([]error, draws)
	step := golden(most)
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(draws, runtime.GOMAXPROCS(0)) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range next {
				at := point(step, i, draws)
				for k, s := range spreads {
					if errs[i] == nil {
						out[k][i], errs[i] = drawn(ctx, s, at[:s.Len()], time)
					}
				}
			}
		}()
	}
	for i := range draws {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, nil, err
		}
	}
	return out, spreads[0], nil
}

// drawn is the time of one draw.
func drawn(ctx context.Context, s *config.Spread, at []float64, time func(context.Context, config.Config) (float64, error)) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c, factor, err := s.Draw(at)
	if err != nil {
		return 0, err
	}
	t, err := Blended(ctx, c, time)
	return factor * t, err
}

// Blended asks for a time, where overlap saves only the part constants.overlap of what
// it saves on the virtual clock.
func Blended(ctx context.Context, c config.Config, time func(context.Context, config.Config) (float64, error)) (float64, error) {
	full, err := time(ctx, c)
	if err != nil || c.Overlap == "none" || c.Constants.Overlap == 1 {
		return full, err
	}
	none, err := time(ctx, Unoverlapped(c))
	if err != nil {
		return 0, err
	}
	return full + (1-c.Constants.Overlap)*max(0, none-full), nil
}

// Unoverlapped is a configuration whose gradients leave all at once, behind the backward
// pass.
func Unoverlapped(c config.Config) config.Config {
	c.Overlap = "none"
	return c
}

// golden is the step of a sequence of low discrepancy in n dimensions.
func golden(n int) []float64 {
	phi := 2.0
	for range 64 {
		phi = math.Pow(1+phi, 1/float64(n+1))
	}
	step := make([]float64, n)
	for i := range step {
		step[i] = math.Mod(math.Pow(1/phi, float64(i+1)), 1)
	}
	return step
}

// point is the i-th point of a sequence, inside the cube.
func point(step []float64, i, of int) []float64 {
	x := make([]float64, len(step))
	for d := range x {
		_, x[d] = math.Modf(0.5 + float64(i+1)*step[d])
		x[d] = min(max(x[d], 0.5/float64(of)), 1-0.5/float64(of))
	}
	return x
}

// quantile of sorted values, between neighbours in proportion.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(at)
	if lo == len(sorted)-1 {
		return sorted[lo]
	}
	return sorted[lo] + (at-float64(lo))*(sorted[lo+1]-sorted[lo])
}
