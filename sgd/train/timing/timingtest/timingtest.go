// Package timingtest is the conformance suite for delay laws: what the virtual clock
// relies on, whoever wrote the law. Laws tries all that are enrolled, Law one.
package timingtest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// loader is a law that reads a file before it can be used.
type loader interface{ Load() (timing.Law, error) }

// Laws runs the suite on every law that is enrolled, at its defaults. One that reads a
// file is skipped: try what it loads with Law.
func Laws(t *testing.T) {
	for _, name := range timing.Laws.Names() {
		t.Run(name, func(t *testing.T) {
			l := timing.Laws.MustParse(name)
			if _, ok := l.(loader); ok {
				t.Skip("it reads a file that its options name")
			}
			Law(t, l)
		})
	}
}

// Law runs the suite on one law.
func Law(t *testing.T, l timing.Law) {
	for name, err := range Failures(l) {
		t.Errorf("%s: %v", name, err)
	}
}

// Failures is what a law fails, by name of the check.
func Failures(l timing.Law) map[string]error {
	out := map[string]error{}
	for name, fails := range map[string]func(timing.Law) error{"address": address, "mean": mean, "independent": independent} {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic: %v", r)
				}
			}()
			return fails(l)
		}()
		if err != nil {
			out[name] = err
		}
	}
	return out
}

// step is the address of one worker's step, as the engine makes it.
func step(worker, n int) timing.Key { return rng.New(11, "law").With(uint64(worker)).With(uint64(n)) }

// address: a step takes the same time whenever, in whatever order and by whomever it
// is asked for, a finite one of at least 0.
func address(l timing.Law) error {
	const n = 500
	first := make([]float64, n)
	for i := range n {
		first[i] = l.Factor(step(0, i))
		if !(first[i] >= 0) || math.IsInf(first[i], 0) {
			return fmt.Errorf("step %d takes %v times the mean; want a finite number of at least 0", i, first[i])
		}
	}
	errs := make([]error, 4)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			for i := n - 1; i >= 0; i-- {
				if got := l.Factor(step(0, i)); got != first[i] {
					errs[g] = fmt.Errorf("step %d takes %v times the mean, and %v when asked again: a law may use its address alone", i, first[i], got)
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// mean: the mean is 1, within five standard errors of a sample's mean; so device.flops
// keeps its meaning. A law whose spread is so large that this says nothing (a standard
// error over 2 %) is an error, too.
func mean(l timing.Law) error {
	const n = 400000
	sum, squares := 0.0, 0.0
	for i := range n {
		x := l.Factor(step(i%7, i))
		sum += x
		squares += x * x
	}
	m := sum / n
	se := math.Sqrt(math.Max(squares/n-m*m, 0) / n)
	switch {
	case se > 0.02:
		return fmt.Errorf("the mean of %d steps has a standard error of %.2g: too wide to say that it is 1", n, se)
	case math.Abs(m-1) > 5*se+1e-9:
		return fmt.Errorf("the mean of %d steps is %.4f ± %.4f; want 1", n, m, se)
	}
	return nil
}

// independent: a step says nothing of the next one, nor of another worker's.
func independent(l timing.Law) error {
	const n = 50000
	a, next, other := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		// Ranks would do as well; logarithms tame the tails.
		a[i], next[i], other[i] = math.Log1p(l.Factor(step(1, i))), math.Log1p(l.Factor(step(1, i+1))), math.Log1p(l.Factor(step(2, i)))
	}
	for what, b := range map[string][]float64{"the worker's next step": next, "the same step of another worker": other} {
		if r := correlation(a, b); math.Abs(r) > 5/math.Sqrt(n) {
			return fmt.Errorf("a step and %s correlate by %.3f; want none", what, r)
		}
	}
	return nil
}

// correlation is Pearson's; 0 where one of them does not vary.
func correlation(a, b []float64) float64 {
	var ma, mb, aa, bb, ab float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(b))
	}
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		aa, bb, ab = aa+x*x, bb+y*y, ab+x*y
	}
	if aa < 1e-12 || bb < 1e-12 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
