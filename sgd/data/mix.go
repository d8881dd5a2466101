package data

import (
	"math"
	"sync"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Mixup (Zhang et al. 2018, arXiv:1710.09412, equation 2) and cutmix (Yun et al.
// 2019, arXiv:1905.04899, equations 1 and 2). With λ ~ Beta(α, α) drawn for a pair of
// samples a and b,
//
//	mixup:  x_a ← λ·x_a + (1−λ)·x_b,  label a by λ, b by 1−λ
//	cutmix: x_b in a rectangle of the share 1−λ of x_a's area, λ then that which is left
//
// and the same for b with a. The papers pair a batch with a permutation of it, which
// would make a sample depend on the batch and so on the number of workers. Here a pair
// is two neighbours in the order of the epoch (places 2k and 2k+1; the last of an odd
// number stays as it is), so a sample looks the same in every batch. Where its
// neighbour lies in another batch that one is read too.
type mixing struct{ mixup, cutmix float64 }

func (m mixing) on() bool { return m.mixup > 0 || m.cutmix > 0 }

func (h *held) mixing() mixing  { return h.extra.mixing() }
func (s *filed) mixing() mixing { return s.extra.mixing() }
func (z *lazy) mixing() mixing  { return z.how.mixing() }

func (a *Augmentation) mixing() mixing { return mixing{a.Mixup, a.Cutmix} }

// blend is how a pair is mixed: λ, or the rectangle that is exchanged.
type blend struct {
	share                    float32 // of a sample's own label
	cut                      bool
	top, left, bottom, right int
}

// draw is the blend of a pair.
func (m mixing) draw(key rng.Key, sh sgd.Shape) blend {
	cut := m.mixup == 0 || m.cutmix > 0 && key.Float64(0) < 0.5
	if !cut {
		return blend{share: float32(beta(key.With(1), m.mixup))}
	}
	side := math.Sqrt(1 - beta(key.With(1), m.cutmix))
	b := blend{cut: true}
	span := func(i uint64, n int) (from, to int) {
		centre, width := key.IntN(i, n), int(side*float64(n))
		return max(0, centre-width/2), min(n, centre+width/2)
	}
	b.top, b.bottom = span(1, sh.H)
	b.left, b.right = span(2, sh.W)
	b.share = 1 - float32((b.bottom-b.top)*(b.right-b.left))/float32(sh.H*sh.W)
	return b
}

// beta draws from Beta(a, a), a up to 4, by Jöhnk's method.
func beta(key rng.Key, a float64) float64 {
	if a == 1 {
		return key.Float64(0)
	}
	for i := uint64(0); ; i += 2 {
		u, v := portable.Pow(key.Float64(i), 1/a), portable.Pow(key.Float64(i+1), 1/a)
		if s := u + v; s > 0 && s <= 1 {
			return u / s
		}
	}
}

// apply mixes x with what it is paired with; back mixes the other way round, too.
func (b *blend) apply(x, with []float32, sh sgd.Shape, back bool) {
	if !b.cut {
		for i, v := range x {
			w := with[i]
			x[i] = float32(b.share*v) + float32((1-b.share)*w)
			if back {
				with[i] = float32(b.share*w) + float32((1-b.share)*v)
			}
		}
		return
	}
	for c := range sh.C {
		for y := b.top; y < b.bottom; y++ {
			at := (c*sh.H + y) * sh.W
			for i := at + b.left; i < at+b.right; i++ {
				x[i], with[i] = with[i], x[i]
			}
		}
	}
}

// other is memory for a sample of another batch.
type other struct {
	x []float32
	y [1]int32
}

var others = sync.Pool{New: func() any { return new(other) }}

// mixUp mixes the samples of a batch that is filled.
func (s *source) mixUp(b *sgd.Batch, sh sgd.Shape) error {
	dim := sh.Len()
	b.Other, b.Share = grow(b.Other, b.N), grow(b.Share, b.N)
	n := uint64(s.n)
	for i := range b.N {
		p := b.First + uint64(i)
		place := p % n
		b.Other[i], b.Share[i] = b.Y[i], 1
		if place^1 >= n {
			continue
		}
		q := p - place + (place ^ 1)
		x := b.X[i*dim : (i+1)*dim]
		how := s.mix.draw(rng.New(s.seed, "mix").With(min(p, q)), sh)
		switch {
		case q+1 == p && i > 0: // mixed with the one before
			b.Other[i], b.Share[i] = b.Y[i-1], how.share
		case q == p+1 && i+1 < b.N:
			b.Other[i], b.Share[i] = b.Y[i+1], how.share
			how.apply(x, b.X[(i+1)*dim:(i+2)*dim], sh, true)
		default:
			c := others.Get().(*other)
			c.x = grow(c.x, dim)
			err := s.sample(q, b.Side, Item{X: c.x, Y: c.y[:]})
			if err == nil {
				b.Other[i], b.Share[i] = c.y[0], how.share
				how.apply(x, c.x, sh, false)
			}
			others.Put(c)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
