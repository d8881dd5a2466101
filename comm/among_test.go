package comm_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
)

// Ranks that talk among each other have numbers of their own, whether they send frames or
// stream, from any activity; to others they are what they were.
func TestAmong(t *testing.T) {
	t.Parallel()
	groups := [][]int{{3, 1}, {0, 2, 4}}
	header := comm.Header{Kind: comm.Gradient, Tag: 1}
	for name, net := range map[string]comm.Net{"local": &local.Net{}, "sim": &sim.Net{Network: &sim.Fair{Bandwidth: 1e9}}} {
		got := make([][]int32, 5)
		program := func(ctx context.Context, h comm.Host) error {
			group := groups[0]
			if !slices.Contains(group, h.Rank()) {
				group = groups[1]
			}
			a := comm.Among(h, group)
			if a.Size() != len(group) || group[a.Rank()] != h.Rank() {
				return fmt.Errorf("rank %d is rank %d of %d", h.Rank(), a.Rank(), a.Size())
			}
			a.Go("hears", func(ctx context.Context, a comm.Host) error {
				for i := range 2 * (a.Size() - 1) {
					from := (i + a.Rank() + 1) % a.Size()
					if from == a.Rank() || i >= a.Size() {
						from = comm.AnyRank
					}
					f, err := a.Recv(ctx, from, 1)
					if err != nil {
						return err
					}
					got[h.Rank()] = append(got[h.Rank()], f.Header.From)
					if real := group[f.Header.From]; int(f.Body[0]) != real {
						return fmt.Errorf("rank %d says it is %d", f.Body[0], real)
					}
					f.Release()
				}
				return nil
			})
			for to := range a.Size() {
				if to == a.Rank() {
					continue
				}
				b := comm.NewBuffer(1)
				b.B[0] = byte(h.Rank())
				if err := a.Send(ctx, to, comm.NewFrame(header, b)); err != nil {
					return err
				}
				src := comm.Copied{byte(h.Rank())}
				if err := comm.Streaming(a).SendFrom(ctx, to, header, 1, &src); err != nil {
					return err
				}
			}
			return nil
		}
		if err := net.Run(t.Context(), slices.Repeat([]comm.Program{program}, 5)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for r, from := range got {
			slices.Sort(from)
			group := groups[1]
			if r%2 == 1 {
				group = groups[0]
			}
			var want []int32
			for i, real := range group {
				if real != r {
					want = append(want, int32(i), int32(i))
				}
			}
			if !slices.Equal(from, want) {
				t.Errorf("%s: rank %d heard %v, want %v", name, r, from, want)
			}
		}
	}
}
