package collective

// Halving is Rabenseifner's all-reduce (2004): a reduce-scatter by recursive
// halving, in which a rank gives half of what it still holds to a partner and
// adds the partner's other half. Then comes an all-gather by recursive doubling. It
// sends as little as the ring, 2·n·(P−1)/P elements, in 2·log2 P steps: for
// vectors between small and large.
//
// Where P is no power of two, the ranks beyond the largest one fold in and out,
// which costs two more steps and 2·n more elements for them.
//
// Rule: recursive halving, then recursive doubling.
//
// Tuning: none.
//
// Cost: 2·n·(P−1)/P elements a rank, 2·log2 P steps.
type Halving struct{}

var _ = Topologies.Add("halving", "recursive halving and doubling (Rabenseifner): least bytes, 2·log2 P steps", Halving{})

// Plan implements Topology.
func (Halving) Plan(at At) Plan {
	core := core(at.Size)
	return folded(at, core, core, func() (m []Move) {
		mine := Range{0, core}
		for bit := core / 2; bit > 0; bit /= 2 {
			peer, mid := at.Rank^bit, (mine.Lo+mine.Hi)/2
			keep, give := Range{mine.Lo, mid}, Range{mid, mine.Hi}
			if at.Rank&bit != 0 {
				keep, give = give, keep
			}
			m = append(m, Move{To: peer, From: peer, Send: give, Recv: keep, Add: true})
			mine = keep
		}
		for bit := 1; bit < core; bit *= 2 {
			peer, width := at.Rank^bit, mine.Hi-mine.Lo
			theirs := Range{mine.Lo + width, mine.Hi + width}
			if at.Rank&bit != 0 {
				theirs = Range{mine.Lo - width, mine.Hi - width}
			}
			m = append(m, Move{To: peer, From: peer, Send: mine, Recv: theirs})
			mine = Range{min(mine.Lo, theirs.Lo), max(mine.Hi, theirs.Hi)}
		}
		return m
	})
}
