package collective_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
)

// Every rank gets what every rank has for it, whatever the lengths, flags of all
// reach all, and what is sent is what is there to send.
func TestAllToAll(t *testing.T) {
	t.Parallel()
	message := func(from, to int) []byte { // empty, short and longer
		return bytes.Repeat([]byte{byte(16*from + to)}, (from*to*37+to)%100)
	}
	for name, mk := range map[string]func() comm.Net{
		"local": func() comm.Net { return &local.Net{} },
		"sim":   func() comm.Net { return &sim.Net{} },
	} {
		for p := 1; p <= 7; p++ {
			ps := make([]comm.Program, p)
			for r := range ps {
				ps[r] = func(ctx context.Context, h comm.Host) error {
					g := collective.Group{Me: h.Rank()}
					var out []*comm.Buffer
					want := 0
					for i := range p {
						g.Ranks = append(g.Ranks, i)
						m := message(g.Me, i)
						b := comm.NewBuffer(len(m))
						copy(b.B, m)
						out = append(out, b)
						if i != g.Me {
							want += len(m)
						}
					}
					parts, flags, release, err := collective.AllToAll(ctx, h, g, comm.Header{Tag: 9, Flags: 1 << g.Me}, out)
					if err != nil {
						return err
					}
					defer release()
					for i, b := range parts {
						if !bytes.Equal(b, message(i, g.Me)) {
							return fmt.Errorf("%d has %d bytes of %d", g.Me, len(b), i)
						}
					}
					if flags != 1<<p-1 {
						return fmt.Errorf("%d has flags %b", g.Me, flags)
					}
					if got := h.Traffic().Count().SentBytes[comm.Gradient]; got != uint64(want) {
						return fmt.Errorf("%d sent %d bytes, want %d", g.Me, got, want)
					}
					return nil
				}
			}
			if err := mk().Run(context.Background(), ps); err != nil {
				t.Fatalf("%s, P %d: %v", name, p, err)
			}
		}
	}
}
