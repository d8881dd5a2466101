package train

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/portable"
)

// Spread is how a measured quantity is distributed: exact mean and extremes,
// quantiles to 5 %. Values that are not finite are left out.
type Spread struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	// Bins are the histogram: how many values were at most Le and more than the
	// bin before.
	Bins []Bin `json:"bins,omitempty"`
}

// Bin is one bin of a Spread.
type Bin struct {
	Le float64 `json:"le"`
	N  uint64  `json:"n"`
}

// gauge gathers a Spread: bins are sixteen to a factor of two. Checkpoints hold it as JSON.
type gauge struct {
	N        uint64
	Sum      float64
	Min, Max float64
	Bins     map[int]uint64
}

const binsPerOctave = 16

func (g *gauge) add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) { // of parameters that have diverged
		return
	}
	if g.N == 0 {
		g.Min, g.Max, g.Bins = x, x, map[int]uint64{}
	}
	g.N++
	g.Sum += x
	g.Min, g.Max = min(g.Min, x), max(g.Max, x)
	bin := math.MinInt32 // nothing or less
	if x > 0 {
		bin = int(math.Ceil(portable.Log2(x) * binsPerOctave))
	}
	g.Bins[bin]++
}

// spread is nil if nothing was measured.
func (g *gauge) spread() *Spread {
	if g.N == 0 {
		return nil
	}
	s := &Spread{N: g.N, Mean: g.Sum / float64(g.N), Min: g.Min, Max: g.Max}
	for bin, n := range g.Bins {
		le := 0.0
		if bin != math.MinInt32 {
			le = portable.Exp2(float64(bin) / binsPerOctave)
		}
		s.Bins = append(s.Bins, Bin{le, n})
	}
	slices.SortFunc(s.Bins, func(a, b Bin) int { return int(math.Copysign(1, a.Le-b.Le)) })
	s.quantiles()
	return s
}

func (s *Spread) quantiles() {
	x, weight := make([]float64, len(s.Bins)), make([]float64, len(s.Bins))
	for i, b := range s.Bins {
		x[i], weight[i] = b.Le, float64(b.N)
	}
	q := func(p float64) float64 { return min(stat.Quantile(p, stat.Empirical, x, weight), s.Max) }
	s.P50, s.P90, s.P99 = q(0.5), q(0.9), q(0.99)
}

// MergeSpreads is the spread of all that several shards measured, nil if that
// is nothing.
func MergeSpreads(parts ...*Spread) *Spread {
	var g gauge
	bins := map[float64]uint64{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		if g.N == 0 {
			g.Min, g.Max = p.Min, p.Max
		}
		g.N += p.N
		g.Sum += float64(p.Mean * float64(p.N))
		g.Min, g.Max = min(g.Min, p.Min), max(g.Max, p.Max)
		for _, b := range p.Bins {
			bins[b.Le] += b.N
		}
	}
	if g.N == 0 {
		return nil
	}
	s := &Spread{N: g.N, Mean: g.Sum / float64(g.N), Min: g.Min, Max: g.Max}
	for le, n := range bins {
		s.Bins = append(s.Bins, Bin{le, n})
	}
	slices.SortFunc(s.Bins, func(a, b Bin) int { return int(math.Copysign(1, a.Le-b.Le)) })
	s.quantiles()
	return s
}

// Waits is who waited for whom at a shard: from a push until the push, or the
// leaving, of another worker let it go on.
type Waits struct {
	Waited []float64 `json:"waited"` // seconds each worker waited
	For    []float64 `json:"for"`    // seconds the others waited for each worker
	// Pairs[w][u] are the seconds that w waited for u; nil with more than
	// MaxWaitPairs workers.
	Pairs [][]float64 `json:"pairs,omitempty"`
}

// MaxWaitPairs is up to how many workers waits are told pair by pair.
const MaxWaitPairs = 64

// measures is what a server measures beside staleness.
type measures struct {
	age      gauge
	sentAt   [][2]stamp       // of each worker: when it was last sent parameters
	born     map[uint64]stamp // of pushes not applied yet, by key
	pushedAt []time.Duration  // of each worker's unanswered push
	waits    *Waits           // of the run's workers, whoever is there; nil: nobody has waited
	names    []int            // which of them each worker is
	all      int              // how many they are
}

type stamp struct {
	version uint64
	at      time.Duration
}

func newMeasures(j *Job) *measures {
	m := &measures{sentAt: make([][2]stamp, j.Workers), born: map[uint64]stamp{}, pushedAt: make([]time.Duration, j.Workers), all: j.Workers}
	if j.joined != nil {
		m.names, m.all = j.joined.m.Workers, j.joined.of.Workers
	}
	return m
}

// pushKey tells pushes apart.
func pushKey(h comm.Header) uint64 { return uint64(h.From)<<40 ^ h.Seq }

// sent notes when a worker was sent the parameters of a version.
func (m *measures) sent(worker int, version uint64, now time.Duration) {
	s := &m.sentAt[worker]
	if s[0].version != version {
		s[1] = s[0]
	}
	s[0] = stamp{version, now}
}

// pushed notes a push and the age of what it was computed on.
func (m *measures) pushed(h comm.Header, now time.Duration) {
	m.pushedAt[h.From] = now
	s := m.sentAt[h.From]
	b := s[0]
	if b.version != h.Version && s[1].version == h.Version {
		b = s[1]
	}
	m.born[pushKey(h)] = b
}

// applied notes that a push went into an update.
func (m *measures) applied(h comm.Header, now time.Duration) {
	if b, ok := m.born[pushKey(h)]; ok {
		m.age.add((now - b.at).Seconds())
		delete(m.born, pushKey(h))
	}
}

// rejected notes that a push will not.
func (m *measures) rejected(h comm.Header) { delete(m.born, pushKey(h)) }

// answered notes that what worker by did let worker w go on.
func (m *measures) answered(w, by int, now time.Duration) {
	d := (now - m.pushedAt[w]).Seconds()
	if w == by || d <= 0 {
		return
	}
	if m.names != nil {
		w, by = m.names[w], m.names[by]
	}
	if n := m.all; m.waits == nil {
		m.waits = &Waits{Waited: make([]float64, n), For: make([]float64, n)}
		if n <= MaxWaitPairs {
			m.waits.Pairs = make([][]float64, n)
			for i := range m.waits.Pairs {
				m.waits.Pairs[i] = make([]float64, n)
			}
		}
	}
	m.waits.Waited[w] += d
	m.waits.For[by] += d
	if m.waits.Pairs != nil {
		m.waits.Pairs[w][by] += d
	}
}
