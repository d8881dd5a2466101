// Package lbfgs minimises with limited-memory BFGS (Nocedal 1980) without ever
// holding a vector: it says what is to be done to vectors that are known by
// number, and learns scalars. So does the coordinator of Sandblaster L-BFGS (Dean
// et al. 2012, §4.2), whose vectors lie in pieces on parameter servers.
//
// With s = x⁺ − x and y = ∇f(x⁺) − ∇f(x) of the last iterations, newest first,
// the direction is −H·∇f by the two-loop recursion (Nocedal and Wright 2006,
// algorithm 7.4):
//
//	q = ∇f;  for each pair, newest first:  α = (s·q)/(s·y),  q −= α·y
//	q *= (s·y)/(y·y) of the newest pair
//	for each pair, oldest first:           q += (α − (y·q)/(s·y))·s
//	d = −q
//
// Then x⁺ = x + t·d for the first t of t₀, t₀/2, t₀/4, … that makes f fall by at
// least 10⁻⁴·t·|d·∇f| (Armijo). t₀ is 1 or, along the gradient, 1/‖∇f‖. A pair
// whose s·y is not clearly positive is left out, since along the step there was
// no curvature to learn. A direction that does not descend, or a search that
// finds no step, empties the history; along the gradient alone that is the end
// (ErrConverged).
package lbfgs

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Vec is the number of a vector.
type Vec uint16

// The vectors of a problem; those of the history come after them.
const (
	X  Vec = iota // the point
	G             // its gradient
	X0            // the point a line search began at
	G0            // its gradient
	D             // direction
	pairs
)

// s and y are the vectors of a pair of the history.
func s(pair int) Vec { return pairs + Vec(2*pair) }
func y(pair int) Vec { return pairs + Vec(2*pair) + 1 }

// Vectors is how many vectors a problem with that much history has.
func Vectors(history int) int { return int(pairs) + 2*history }

// Space is where the vectors are.
type Space interface {
	// Do carries out ops in order and returns the dot products among them.
	Do(ctx context.Context, ops ...Op) ([]float64, error)
	// Evaluate makes G the gradient at X and returns the loss there. A loss that
	// is not finite says that there is no such point.
	Evaluate(ctx context.Context) (loss float64, err error)
}

// ErrConverged says that no step makes the loss fall any more, as far as
// rounding lets one see.
var ErrConverged = errors.New("the loss falls no further")

const (
	sufficient = 1e-4  // of the fall that the slope promises
	curved     = 1e-10 // least s·y, in units of y·y
	halvings   = 30    // of a step, at most
)

// Minimizer makes iterations. Its exported fields are its state, which is small;
// the vectors are the other part of it.
type Minimizer struct {
	space   Space
	history int

	Loss  float64 // at X
	Valid bool    // Loss and G are those of X
	Pairs []int   // numbers of the pairs in use, oldest first
	SY    []float64
	YY    []float64 // s·y and y·y of each
}

// New returns a minimiser of what space evaluates, with up to history pairs.
func New(space Space, history int) *Minimizer {
	return &Minimizer{space: space, history: history}
}

// Step is what an iteration came to.
type Step struct {
	Length float64 // t
	Slope  float64 // d·∇f where it began, below 0
	Tries  int     // points that were evaluated for it
}

// Changed says that another function is to be minimised from here on. Pairs stay,
// as each is of one function.
func (m *Minimizer) Changed() { m.Valid = false }

// Iterate makes an iteration.
func (m *Minimizer) Iterate(ctx context.Context) (st Step, err error) {
	if !m.Valid {
		if m.Loss, err = m.space.Evaluate(ctx); err != nil {
			return st, err
		}
		if !finite(m.Loss) {
			return st, errors.New("the loss is not finite where the search would begin")
		}
		m.Valid = true
	}
	for {
		slope, square, err := m.direction(ctx)
		if err != nil {
			return st, err
		}
		st.Slope = slope
		first := 1.0
		if len(m.Pairs) == 0 {
			first = 1 / math.Sqrt(square)
		}
		found := false
		if slope < 0 && finite(first) {
			if found, err = m.search(ctx, first, &st); err != nil {
				return st, err
			}
		}
		switch {
		case found:
			return st, m.learn(ctx)
		case len(m.Pairs) == 0:
			return st, ErrConverged
		}
		m.Pairs, m.SY, m.YY = nil, nil, nil
	}
}

// direction makes D the direction by the two-loop recursion. slope is D·G, square
// G·G.
func (m *Minimizer) direction(ctx context.Context) (slope, square float64, err error) {
	ops := []Op{Copied(D, G)}
	n := len(m.Pairs)
	alpha := make([]float64, n)
	dot := func(v Vec) (float64, error) {
		dots, err := m.space.Do(ctx, append(ops, Dotted(v, D))...)
		if err != nil {
			return 0, err
		}
		if len(dots) != 1 {
			return 0, fmt.Errorf("lbfgs: %d dot products, want 1", len(dots))
		}
		return dots[0], nil
	}
	for i := n - 1; i >= 0; i-- {
		sq, err := dot(s(m.Pairs[i]))
		if err != nil {
			return 0, 0, err
		}
		alpha[i] = sq / m.SY[i]
		ops = []Op{Added(D, -alpha[i], y(m.Pairs[i]))}
	}
	if n > 0 {
		ops = append(ops, Scaled(D, m.SY[n-1]/m.YY[n-1]))
	}
	for i := range n {
		yq, err := dot(y(m.Pairs[i]))
		if err != nil {
			return 0, 0, err
		}
		ops = []Op{Added(D, alpha[i]-yq/m.SY[i], s(m.Pairs[i]))}
	}
	dots, err := m.space.Do(ctx, append(ops, Scaled(D, -1), Dotted(D, G), Dotted(G, G), Copied(X0, X), Copied(G0, G))...)
	if err != nil {
		return 0, 0, err
	}
	if len(dots) != 2 {
		return 0, 0, fmt.Errorf("lbfgs: %d dot products, want 2", len(dots))
	}
	return dots[0], dots[1], nil
}

// search looks for a step from X0 along D. Without one X and G are as before.
func (m *Minimizer) search(ctx context.Context, first float64, st *Step) (found bool, err error) {
	for k := range halvings {
		t := math.Ldexp(first, -k)
		if _, err := m.space.Do(ctx, Copied(X, X0), Added(X, t, D)); err != nil {
			return false, err
		}
		loss, err := m.space.Evaluate(ctx)
		if err != nil {
			return false, err
		}
		st.Tries++
		if finite(loss) && loss <= m.Loss+float64(sufficient*t*st.Slope) {
			st.Length, m.Loss = t, loss
			return true, nil
		}
	}
	_, err = m.space.Do(ctx, Copied(X, X0), Copied(G, G0))
	return false, err
}

// learn adds the pair of the step just made to the history.
func (m *Minimizer) learn(ctx context.Context) error {
	pair := len(m.Pairs)
	if pair == m.history {
		pair = m.Pairs[0]
		m.Pairs, m.SY, m.YY = m.Pairs[1:], m.SY[1:], m.YY[1:]
	}
	dots, err := m.space.Do(ctx,
		Copied(s(pair), X), Added(s(pair), -1, X0),
		Copied(y(pair), G), Added(y(pair), -1, G0),
		Dotted(s(pair), y(pair)), Dotted(y(pair), y(pair)))
	if err != nil {
		return err
	}
	if len(dots) != 2 {
		return fmt.Errorf("lbfgs: %d dot products, want 2", len(dots))
	}
	if dots[0] > curved*dots[1] {
		m.Pairs, m.SY, m.YY = append(m.Pairs, pair), append(m.SY, dots[0]), append(m.YY, dots[1])
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
