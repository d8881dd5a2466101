package collective

import "fmt"

// Torus lays the ranks out in rows of X and columns of P/X (Mikami et al. 2018;
// Ying et al. 2018). Rings along the rows scatter the sum, so that a rank holds
// one X-th of its row's; rings along the columns all-reduce that; rings along the
// rows gather. As few bytes as the one ring, 2·n·(P−1)/P, in
// 2(X−1) + 2(P/X−1) steps instead of 2(P−1): large vectors over many ranks.
//
// Left alone, X is the divisor of P next below its root: on a prime number of
// ranks the torus is one ring. Where a given X does not divide P, the P mod X
// ranks beyond fold in and out, which costs two more steps and 2·n more elements
// for them. With X above P there is one row.
//
// Rule: scatter along rows, all-reduce along columns, gather along rows.
//
// Tuning: x near the root of P; the length of a row of the machine where there
// is one.
//
// Cost: 2·n·(P−1)/P elements a rank, 2(X−1) + 2(P/X−1) steps.
type Torus struct {
	X int `doc:"ranks in a row; 0: the most square torus that P allows"`
}

var _ = Topologies.Add("torus", "rings along the rows and columns of a 2-D torus: least bytes, about 4·√P steps", Torus{})

// Validate checks the options.
func (t Torus) Validate() error {
	if t.X < 0 {
		return fmt.Errorf(`option "x": want 0 or the ranks in a row, not %d`, t.X)
	}
	return nil
}

// Plan implements Topology.
func (t Torus) Plan(at At) Plan {
	x := t.X
	if x == 0 {
		for d := 1; d*d <= at.Size; d++ {
			if at.Size%d == 0 {
				x = d
			}
		}
	}
	return grid(at, x)
}

// grid is the all-reduce over rows of x successive ranks, and those beyond the
// last whole row.
func grid(at At, x int) Plan {
	x = max(1, min(x, at.Size))
	y := at.Size / x
	core := x * y
	return folded(at, core, core, func() []Move {
		column, row := at.Rank%x, at.Rank/x
		// A rank's place in its row decides which of x runs of y chunks it comes
		// to hold; its place in the column, which chunk of these.
		along := circle{size: x, me: column, rank: func(i int) int { return row*x + i }, slice: func(i int) Range { return Range{i * y, (i + 1) * y} }}
		own := (column + 1) % x
		across := circle{size: y, me: row, rank: func(i int) int { return i*x + column }, slice: func(i int) Range { return Range{own*y + i, own*y + i + 1} }}
		m := along.scatter(nil)
		m = across.scatter(m)
		m = across.gather(m)
		return along.gather(m)
	})
}
