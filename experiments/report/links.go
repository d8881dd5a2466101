package report

import (
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Links are told by who is at their ends.
var linkNames = []string{"workers to servers", "servers to workers", "between workers"}

// byLink adds up what ranks sent, by linkNames. Ranks with very many peers, and
// folders from before, do not tell it.
func byLink(ranks []record.RankReport) []float64 {
	out := make([]float64, len(linkNames))
	roles := map[int]string{}
	for _, r := range ranks {
		roles[r.Rank] = r.Role
	}
	for _, r := range ranks {
		for _, p := range r.Peers {
			i := 2
			switch {
			case r.Role == "server":
				i = 1
			case roles[p.Rank] == "server":
				i = 0
			}
			out[i] += float64(total(p.SentBytes))
		}
	}
	return out
}

func total(kinds [comm.NumKinds]uint64) (n uint64) {
	for _, b := range kinds {
		n += b
	}
	return n
}

// pair is two ranks and what crossed between them, both ways.
type pair struct {
	a, b  int
	kinds [comm.NumKinds]uint64
}

// busiestLink is the pair between which most bytes crossed, the first of equals.
// One end's word is enough: of two that tell, the same.
func busiestLink(ranks []record.RankReport) (most pair) {
	for _, r := range ranks {
		for _, p := range r.Peers {
			c := pair{a: r.Rank, b: p.Rank}
			for k := range c.kinds {
				c.kinds[k] = p.SentBytes[k] + p.RecvBytes[k]
			}
			if total(c.kinds) > total(most.kinds) {
				most = c
			}
		}
	}
	return most
}

// linkNotes name each configuration's busiest link, and of a virtual network how
// much of its capacity was used.
func linkNotes(t *Task) (notes []string) {
	shown, _ := t.shown()
	for _, c := range shown {
		tr := c.Trials[0]
		b := busiestLink(tr.Ranks)
		if total(b.kinds) == 0 {
			continue
		}
		name := func(rank int) string {
			for _, r := range tr.Ranks {
				if r.Rank == rank && r.Role == "server" {
					return fmt.Sprintf("server %d", r.Shard)
				}
			}
			return fmt.Sprintf("worker %d", rank)
		}
		s := fmt.Sprintf("%s: most between %s and %s, %s", c.Label, name(b.a), name(b.b), bytesText(float64(total(b.kinds))))
		if n := tr.Result.Network; n != nil && len(n.Busiest) > 0 {
			s += fmt.Sprintf("; the busiest link of the network, %s, was busy %s of the time", n.Busiest[0].Link, percent(n.Busiest[0].Busy))
		}
		notes = append(notes, s)
	}
	return notes
}
