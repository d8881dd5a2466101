package reproduce

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
)

// protocol is how a rate is measured on the virtual cluster: as the benchmarks
// measured that the studies compare with, where there is the time for it.
type protocol struct{ warm, steps, repeats int }

// protocol is that of Bugliarello 2017 (10 steps of warm-up, 100 measured, 5
// times), or a shorter one.
func (l *Lab) protocol() protocol {
	if l.Quick {
		return protocol{2, 8, 1}
	}
	return protocol{10, 100, 5}
}

// rate is a measured rate: mean and standard deviation over the repeats, in
// samples a second.
type rate struct{ mean, spread float64 }

// simulate measures the rate of runs without weights that have these keys, each
// "key=value", in samples a second: the mean over repeats, which differ in their
// seed. What was measured before by the same program into the same folder is not
// measured again.
func (l *Lab) simulate(ctx context.Context, p protocol, keys ...string) (rate, error) {
	c, err := l.weightless(p.warm+p.steps, keys...)
	if err != nil {
		return rate{}, err
	}
	rates := make([]float64, p.repeats)
	err = each(ctx, p.repeats, func(i int) error {
		c := c
		c.Seed = uint64(1 + i)
		key := fmt.Sprintf("%s from step %d", c.Hash(), p.warm)
		r, ok := l.memory.get(key)
		if !ok {
			release, err := l.turn(ctx)
			if err != nil {
				return err
			}
			m, err := l.measured(ctx, c)
			release()
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(keys, " "), err)
			}
			r = m.Rate(p.warm, c.Workers*c.Batch)
			if err := l.memory.put(key, r); err != nil {
				return err
			}
		}
		rates[i] = r
		return nil
	})
	if err != nil {
		return rate{}, err
	}
	r := rate{mean: stat.Mean(rates, nil)}
	if len(rates) > 1 {
		r.spread = stat.StdDev(rates, nil)
	}
	return r, nil
}

// measured measures a run, and shows how far it has come.
func (l *Lab) measured(ctx context.Context, c config.Config) (*ask.Measured, error) {
	show := l.Runs.Display.Run(fmt.Sprintf("%s: %s, %d workers, seed %d", l.Runs.Recipe, c.Timing, c.Workers, c.Seed), c.Steps, 0)
	defer show.Drop()
	return ask.Measure(ctx, c, ask.Watch{Stopping: l.stopping, Steps: show.Steps})
}

// weightless is the configuration of a run without weights that has these keys.
func (l *Lab) weightless(steps int, keys ...string) (config.Config, error) {
	c := config.Default()
	base := []string{"weightless=true", "net=sim", "mode=reduce", "device.codec=free", fmt.Sprintf("steps=%d", steps), "epochs=0"}
	return c, l.set(&c, append(base, keys...))
}

// set sets keys of a configuration, each "key=value", and takes out what is to be
// done without.
func (l *Lab) set(c *config.Config, keys []string) error {
	assign := func(keys []string) error {
		for _, kv := range keys {
			k, v, _ := strings.Cut(kv, "=")
			if err := c.Set(k, v); err != nil {
				return err
			}
		}
		return nil
	}
	if err := assign(keys); err != nil {
		return err
	}
	return assign(l.off(*c))
}

// each calls do for n−1 … 0, as many at once as there are cores, and returns the
// first error. Studies list their runs from small to large, and what takes longest
// should begin first.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for i := n - 1; i >= 0; i-- {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			if ctx.Err() != nil {
				return
			}
			if err := do(i); err != nil {
				cancel(err)
			}
		}()
	}
	wait.Wait()
	return context.Cause(ctx)
}

// errs sums up relative errors.
type errs []float64

func (e *errs) add(ours, published float64) { *e = append(*e, ours/published-1) }

func (e errs) rms() float64 {
	sum := 0.0
	for _, x := range e {
		sum += x * x
	}
	return math.Sqrt(sum / math.Max(1, float64(len(e))))
}

func (e errs) worst() (w float64) {
	for _, x := range e {
		w = math.Max(w, math.Abs(x))
	}
	return w
}
