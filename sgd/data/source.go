package data

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// samples is a store of labelled samples in a fixed order.
type samples interface {
	len() int
	form() sgd.Sample
	// read writes sample i, seen through j. Safe for concurrent use.
	read(i int, j jitter, to Item) error
}

// jitter is the address of a sample's augmentation, and its side; the zero value is
// none, at the store's own.
type jitter struct {
	on    bool
	key   rng.Key
	seed  uint64
	epoch uint64
	side  int // of the sample, of a store that scales; 0: the store's own
}

// source puts a store into stream order: position p is, in epoch p/n, the image
// of p mod n under that epoch's permutation. Unshuffled, p is p mod n.
type source struct {
	samples
	n       int     // samples served, len() unless limited
	pick    rng.Key // which n, when limited
	from    int     // the first of them under that permutation
	seed    uint64
	shuffle bool
	augment bool
	mix     mixing
	par     bool // a read is slow enough to spread over cores
}

func newSource(s samples, n int, limit int, seed uint64) *source {
	src := &source{samples: s, n: n, pick: rng.New(0, "limit"), seed: seed}
	if limit > 0 && limit < n {
		src.n = limit
	}
	return src
}

// dataset pairs two stores under the options.
func dataset(train, test samples, o Options, par bool) sgd.Dataset {
	tr := newSource(train, train.len(), o.Limit, o.Seed)
	tr.shuffle, tr.augment, tr.par = true, o.Augment, par
	if m, ok := train.(interface{ mixing() mixing }); ok {
		tr.mix = m.mixing()
	}
	if held := int(math.Round(o.Validation * float64(tr.n))); o.Validation > 0 {
		held = min(max(held, 1), max(tr.n-1, 0))
		tr.n -= held
		va := newSource(train, train.len(), o.TestLimit, o.Seed)
		va.from, va.n, va.par = tr.n, min(va.n, held), par
		return sgd.Dataset{Train: tr, Test: va}
	}
	te := newSource(test, test.len(), o.TestLimit, o.Seed)
	te.par = par
	return sgd.Dataset{Train: tr, Test: te}
}

func (s *source) Len() int           { return s.n }
func (s *source) Sample() sgd.Sample { return s.form() }

// index is the stored sample at stream position p.
func (s *source) index(p uint64) int {
	epoch, i := p/uint64(s.n), int(p%uint64(s.n))
	if s.shuffle {
		i = rng.New(s.seed, "shuffle").With(epoch).Permute(i, s.n)
	}
	if all := s.len(); s.n < all {
		i = s.pick.Permute(s.from+i, all)
	}
	return i
}

// Batch implements sgd.Source.
func (s *source) Batch(d sgd.Draw, b *sgd.Batch) error {
	if d.N < 0 {
		return fmt.Errorf("data: a batch of %d samples", d.N)
	}
	sh, err := s.at(d)
	if err != nil {
		return err
	}
	of := s.form()
	dim, room := sh.Len(), d.N*of.Len() // for the largest side
	if of.Vocabulary > 0 {
		b.X, b.Tokens = b.X[:0], grow(b.Tokens, room)[:d.N*dim]
	} else {
		b.X, b.Tokens = grow(b.X, room)[:d.N*dim], b.Tokens[:0]
	}
	b.Y = grow(b.Y, d.N*of.Labels())
	b.N, b.First, b.Seed, b.Side = d.N, d.First, s.seed, d.Side
	b.Other, b.Share = b.Other[:0], b.Share[:0]
	if s.par && d.N > 1 {
		if err := parallel(d.N, func(i int) error { return s.fill(b, i) }); err != nil {
			return err
		}
	} else {
		for i := range d.N {
			if err := s.fill(b, i); err != nil {
				return err
			}
		}
	}
	if s.augment && s.mix.on() {
		return s.mixUp(b, sh)
	}
	return nil
}

func (s *source) fill(b *sgd.Batch, i int) error {
	return s.sample(b.First+uint64(i), b.Side, Item{X: part(b.X, i, b.N), Tokens: part(b.Tokens, i, b.N), Y: part(b.Y, i, b.N)})
}

// part is the values of sample i of n.
func part[T any](v []T, i, n int) []T { return v[i*len(v)/n : (i+1)*len(v)/n] }

// sample writes the sample at stream position p, at a side.
func (s *source) sample(p uint64, side int, to Item) error {
	j := jitter{side: side}
	if s.augment {
		j = jitter{on: true, key: rng.New(s.seed, "augment").With(p), seed: s.seed, epoch: p / uint64(s.n), side: side}
	}
	return s.read(s.index(p), j, to)
}

// grow returns v with length n, reusing its array when that is long enough.
func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

// team reads samples on cores that are idle.
var team par.Team

// parallel runs f(0) … f(n−1) on the calling goroutine and those that others
// leave idle, and returns the error of the lowest index that failed.
func parallel(n int, f func(int) error) error {
	var (
		mu  sync.Mutex
		at  atomic.Int64
		err error
	)
	at.Store(int64(n))
	team.Run(n, par.Threads(), func(i, _ int) {
		if int64(i) > at.Load() {
			return
		}
		if e := f(i); e != nil {
			mu.Lock()
			defer mu.Unlock()
			if int64(i) < at.Load() {
				at.Store(int64(i))
				err = e
			}
		}
	})
	return err
}
