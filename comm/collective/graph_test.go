package collective_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/comm/collective"
)

func eachGraph(t *testing.T, f func(t *testing.T, g collective.Graph)) {
	for _, name := range collective.Graphs.Names() {
		g, _ := collective.Graphs.Proto(name)
		t.Run(name, func(t *testing.T) { f(t, g) })
	}
}

// What every graph promises: both ends of an edge agree, columns sum to 1,
// steps repeat, and symmetric ones are.
func TestGraphs(t *testing.T) {
	t.Parallel()
	eachGraph(t, func(t *testing.T, g collective.Graph) {
		for size := 1; size <= 33; size++ {
			period := g.Period(size)
			for step := range 2 * period {
				w := make([][]float64, size) // by the senders' word
				for i := range w {
					w[i] = make([]float64, size)
				}
				mixes := make([]collective.Mix, size)
				for r := range mixes {
					mixes[r] = g.Mix(r, size, step)
					w[r][r] = mixes[r].Self
					for _, e := range mixes[r].Out {
						if e.Rank == r || w[e.Rank][r] != 0 || !(e.Weight > 0) {
							t.Fatalf("P %d, step %d: rank %d has %v", size, step, r, mixes[r].Out)
						}
						w[e.Rank][r] = e.Weight
					}
					if p := g.Mix(r, size, step+period); len(p.Out) != len(mixes[r].Out) || (len(p.Out) > 0 && p.Out[0] != mixes[r].Out[0]) {
						t.Fatalf("P %d: step %d is not step %d again", size, step+period, step)
					}
				}
				for r, m := range mixes {
					column, heard := 0.0, 0
					for j := range size {
						column += w[j][r]
						if j != r && w[r][j] > 0 {
							heard++
						}
						if g.Symmetric() && w[j][r] != w[r][j] {
							t.Fatalf("P %d, step %d: %d and %d weigh each other %v and %v", size, step, j, r, w[j][r], w[r][j])
						}
					}
					if math.Abs(column-1) > 1e-12 || m.Self < 0 {
						t.Fatalf("P %d, step %d: column %d sums to %v, keeps %v", size, step, r, column, m.Self)
					}
					if heard != len(m.In) {
						t.Fatalf("P %d, step %d: rank %d hears %v, %d send to it", size, step, r, m.In, heard)
					}
					for _, e := range m.In {
						if w[r][e.Rank] != e.Weight {
							t.Fatalf("P %d, step %d: rank %d hears %v from %d, which sends %v", size, step, r, e.Weight, e.Rank, w[r][e.Rank])
						}
					}
				}
			}
		}
	})
}

// Whoever of the ranks dies, columns still sum to 1 over those that are left, and on
// symmetric graphs rows do: both ends of an edge keep what would have crossed it.
func TestGraphsWithoutTheDead(t *testing.T) {
	t.Parallel()
	eachGraph(t, func(t *testing.T, g collective.Graph) {
		for size := 1; size <= 7; size++ {
			for deaths := range 1 << size {
				lost := func(rank int) bool { return deaths>>rank&1 != 0 }
				for step := range g.Period(size) {
					rows, columns := make([]float64, size), make([]float64, size)
					heard := map[[2]int]float64{}
					for r := range size {
						if lost(r) {
							continue
						}
						m := g.Mix(r, size, step).Without(lost)
						rows[r] += m.Self
						columns[r] += m.Self
						for _, e := range m.Out {
							if lost(e.Rank) {
								t.Fatalf("P %d, dead %b: rank %d sends to %d", size, deaths, r, e.Rank)
							}
							rows[e.Rank] += e.Weight
							columns[r] += e.Weight
							heard[[2]int{r, e.Rank}] += e.Weight
						}
						for _, e := range m.In {
							heard[[2]int{e.Rank, r}] -= e.Weight
						}
					}
					for r := range size {
						if lost(r) {
							continue
						}
						if math.Abs(columns[r]-1) > 1e-12 || g.Symmetric() && math.Abs(rows[r]-1) > 1e-12 {
							t.Fatalf("P %d, dead %b, step %d, rank %d: column %v, row %v", size, deaths, step, r, columns[r], rows[r])
						}
					}
					for e, w := range heard {
						if w != 0 {
							t.Fatalf("P %d, dead %b, step %d: the ends of edge %v do not agree", size, deaths, step, e)
						}
					}
				}
			}
		}
	})
}

// Gossip over a graph that is connected within its period ends at the mean, as
// fast as its gap says or faster.
func TestGossipEndsAtTheMean(t *testing.T) {
	t.Parallel()
	eachGraph(t, func(t *testing.T, g collective.Graph) {
		for size := 1; size <= 33; size++ {
			gap := collective.Gap(g, size)
			if !(gap > 0 && gap <= 1) {
				t.Fatalf("P %d: gap %v", size, gap)
			}
			x, y, mean := make([]float64, size), make([]float64, size), 0.0
			for i := range x {
				x[i] = float64(i * i % 7)
				mean += x[i] / float64(size)
			}
			distance := func() (d float64) {
				for _, v := range x {
					d += (v - mean) * (v - mean)
				}
				return math.Sqrt(d)
			}
			before, period := distance(), g.Period(size)
			for step := range 4 * period {
				for r := range x {
					m := g.Mix(r, size, step)
					y[r] = m.Self * x[r]
					for _, e := range m.In {
						y[r] += e.Weight * x[e.Rank]
					}
				}
				x, y = y, x
			}
			if after, most := distance(), before*math.Pow(1-gap, float64(4*period)); after > most+1e-6*(1+before) {
				t.Errorf("P %d: %v from the mean after %d steps, the gap promises %v", size, after, 4*period, most)
			}
		}
	})
}

// Gaps against their closed forms.
func TestGaps(t *testing.T) {
	t.Parallel()
	near := func(g collective.Graph, size int, want float64) {
		t.Helper()
		got := collective.Gap(g, size)
		t.Logf("%-12s P %2d: gap %.4f", collective.Graphs.Spec(g), size, got)
		if math.Abs(got-want) > 1e-4 {
			t.Errorf("%T, P %d: gap %v, want %v", g, size, got, want)
		}
	}
	for _, p := range []int{4, 8, 16, 32} {
		log := math.Log2(float64(p))
		near(collective.RingGraph{}, p, 1-(1+2*math.Cos(2*math.Pi/float64(p)))/3)
		near(collective.CompleteGraph{}, p, 1)
		near(collective.OnePeer{}, p, 1)
		near(collective.Pairs{}, p, 1)
		near(collective.ExponentialGraph{}, p, 2/(1+log)) // Ying et al. 2021, theorem 1
	}
}

// Gaps of many ranks are as exact as those of few.
func TestGapsOfManyRanks(t *testing.T) {
	t.Parallel()
	for _, p := range []int{1000, 4095, 4096} {
		sine := math.Sin(math.Pi / float64(p))
		for g, want := range map[collective.Graph]float64{
			collective.RingGraph{}:     4. / 3 * sine * sine, // 2/3·(1 − cos 2π/P)
			collective.CompleteGraph{}: 1,
		} {
			if got := collective.Gap(g, p); math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%T, P %d: gap %v, want %v", g, p, got, want)
			}
		}
	}
}

// named hides that a graph is circulant.
type named struct{ collective.Graph }

// The closed form and the iteration agree.
func TestGapWays(t *testing.T) {
	t.Parallel()
	eachGraph(t, func(t *testing.T, g collective.Graph) {
		for size := 2; size <= 33; size++ {
			if a, b := collective.Gap(g, size), collective.Gap(named{g}, size); math.Abs(a-b) > 1e-6 {
				t.Errorf("P %d: gap %v, by iteration %v", size, a, b)
			}
		}
	})
}
