package timingtest_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/timing/timingtest"
)

func TestLaws(t *testing.T) { timingtest.Laws(t) }

type law func(k timing.Key) float64

func (l law) Factor(k timing.Key) float64 { return l(k) }

// drags is a law whose steps resemble the one that was asked for before. It
// remembers every answer, so that an address keeps its factor.
type drags struct {
	mu   sync.Mutex
	last float64
	had  map[timing.Key]float64
}

func (l *drags) Factor(k timing.Key) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.had[k]; !ok {
		l.last = 0.9*l.last + 0.1*k.Exp(0)
		l.had[k] = l.last
	}
	return l.had[k]
}

// Laws that keep to all but one thing are found by the check for it.
func TestLiars(t *testing.T) {
	var chance atomic.Int64
	one := rng.New(1, "one").With(1)
	for name, c := range map[string]struct {
		law         timing.Law
		check, says string
	}{
		"nothing wrong":       {law(func(k timing.Key) float64 { return k.Exp(0) }), "", ""},
		"by chance":           {law(func(k timing.Key) float64 { return float64(chance.Add(1) % 3) }), "address", "address alone"},
		"negative":            {law(func(k timing.Key) float64 { return 1 + k.Norm(0) }), "address", "at least 0"},
		"a mean of 1.1":       {law(func(k timing.Key) float64 { return 1.1 * k.Exp(0) }), "mean", "want 1"},
		"no mean":             {timing.Pareto{Alpha: 1.01}, "mean", "standard error"},
		"one drags the next":  {&drags{had: map[timing.Key]float64{}, last: 1}, "independent", "correlate"},
		"all workers at once": {law(func(k timing.Key) float64 { _ = k; return one.Exp(0) }), "mean", "want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := timingtest.Failures(c.law)
			if err := got[c.check]; c.check != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("check %s says %v; all: %v", c.check, err, got)
			}
			if c.check == "" && len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}
