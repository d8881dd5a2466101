package compress

import (
	"slices"
	"testing"
)

// What thc has rotated is rounded with other draws in every chunk, at every step and on
// every rank: behind the rotation, whose signs differ too, no output shows that.
func TestTHCRoundsByAddress(t *testing.T) {
	const chunk = 4096
	rounded := func(rank, step int) (own []float32) {
		e, err := THC{Bits: 4, Grid: 30, Clip: 1.0 / 32, Chunk: chunk}.NewExchange(Block{Name: "w", Rows: 1, Cols: 2 * chunk, Rank: rank, World: 2, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		x := e.(*thcExchange)
		g := make([]float32, 2*chunk)
		for i := range g {
			g[i] = float32(i%chunk%7) - 3
		}
		op, err := x.Begin(g, Step{N: step})
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.y { // the same wherever it is rounded
			x.y[i] = float32(64 * (i%chunk%13 - 6))
		}
		op.Floats[0], op.Floats[1] = 250, 250
		if _, err := x.Next(op); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(x.own)
	}
	base := rounded(0, 0)
	for what, other := range map[string][]float32{
		"chunk": base[chunk:], "rank": rounded(1, 0)[:chunk], "step": rounded(0, 1)[:chunk],
	} {
		same := 0
		for i, v := range other {
			if v == base[i] {
				same++
			}
		}
		if same > chunk*3/4 {
			t.Errorf("another %s, and %d of %d values are rounded alike", what, same, chunk)
		}
	}
}
