package train

import (
	"testing"

	"github.com/gradlab/gradlab/comm/collective"
)

// News comes to all in so many steps.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		graph              string
		workers, lag, want int
	}{
		{"complete", 5, 0, 1}, {"ring", 8, 0, 4}, {"ring", 9, 0, 4}, {"ring", 100, 0, 50}, {"one_peer", 8, 0, 3}, {"exponential", 8, 0, 3},
		{"pairs", 8, 0, 3}, {"one_peer", 8, 1, 6}, {"ring", 8, 2, 12}, {"complete", 2, 3, 4}, {"pairs", 1, 0, 1}, {"ring", 1, 2, 1}, {"ring", 2, 0, 1},
	} {
		if got := spread(collective.Graphs.MustParse(c.graph), c.workers, c.lag); got != c.want {
			t.Errorf("%s of %d, %d late: %d steps, want %d", c.graph, c.workers, c.lag, got, c.want)
		}
	}
}
