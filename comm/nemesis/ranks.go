package nemesis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
)

// World is what a schedule may name: workers w0 …, behind them the servers s0 …, and last
// the observer, with which the coordinator lies.
type World struct {
	Workers, Servers int
	Key              rng.Key // addresses the draws of laws
}

// Ranks is the number of ranks, the observer included.
func (w World) Ranks() int { return w.Workers + w.Servers + 1 }

// Observer is the rank of the observer.
func (w World) Observer() int { return w.Workers + w.Servers }

// Name is the name of a rank, which rank reads.
func (w World) Name(rank int) string {
	switch {
	case rank < w.Workers:
		return "w" + strconv.Itoa(rank)
	case rank < w.Observer():
		return "s" + strconv.Itoa(rank-w.Workers)
	}
	return "observer"
}

// rank is the rank of a name.
func (w World) rank(name string) (int, error) {
	lo, hi, err := w.span(name)
	if err == nil && hi != lo+1 {
		err = fmt.Errorf("%q is %d ranks, want one", name, hi-lo)
	}
	return lo, err
}

// span is the ranks [lo, hi) that a name means.
func (w World) span(name string) (lo, hi int, err error) {
	switch name {
	case "observer":
		return w.Observer(), w.Observer() + 1, nil
	case "w*":
		return 0, w.Workers, nil
	case "s*":
		return w.Workers, w.Observer(), nil
	case "*":
		return 0, w.Ranks(), nil
	}
	first, count, what := 0, w.Workers, "workers"
	if strings.HasPrefix(name, "s") {
		first, count, what = w.Workers, w.Servers, "servers"
	}
	n, err := strconv.Atoi(strings.TrimLeft(name, "ws"))
	if err != nil || len(name) < 2 || name[1] < '0' || name[1] > '9' || name[0] != 'w' && name[0] != 's' {
		return 0, 0, badName(name)
	}
	if n >= count {
		return 0, 0, fmt.Errorf("there is no %s: the run has %d %s, counted from 0", name, count, what)
	}
	return first + n, first + n + 1, nil
}

func badName(name string) error {
	return fmt.Errorf("want w0, s0, observer, w*, s* or *, for a worker, a server, the observer, all workers, all servers or all, not %q", name)
}

// named says whether a word is a name of ranks at all.
func named(name string) error {
	_, _, err := World{Workers: math.MaxInt32 / 2, Servers: math.MaxInt32 / 2}.span(name)
	return err
}

// Set is ranks; nil is all of them.
type Set []bool

// Has says whether a rank is in the set.
func (s Set) Has(rank int) bool { return s == nil || rank < len(s) && s[rank] }

// set is the ranks of some names; none are all.
func (w World) set(names []string) (Set, error) {
	if len(names) == 0 {
		return nil, nil
	}
	s := make(Set, w.Ranks())
	for _, name := range names {
		lo, hi, err := w.span(name)
		if err != nil {
			return nil, err
		}
		for r := lo; r < hi; r++ {
			s[r] = true
		}
	}
	return s, nil
}

// others are the ranks that a set lacks.
func (w World) others(s Set) Set {
	out := make(Set, w.Ranks())
	for r := range out {
		out[r] = !s.Has(r)
	}
	return out
}
