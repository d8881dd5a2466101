package collective

// Direct lets every rank talk to every other: rank c owns chunk c, receives it
// from all others, and sends the sum to all. Same bytes as the ring,
// 2·n·(P−1)/P a rank, but only two latencies deep and with P−1 messages in
// flight at each NIC: good for small vectors and few ranks.
//
// Rule: a reduce-scatter to owners, then an all-gather from them.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: 2·n·(P−1)/P elements a rank, two latencies, P−1 messages at once.
type Direct struct{}

var _ = Topologies.Add("direct", "every rank owns a chunk and talks to all others: two latencies deep", Direct{})

// Plan implements Topology.
func (Direct) Plan(at At) Plan {
	p, r := at.Size, at.Rank
	chunk := func(c int) Range { return Range{c, c + 1} }
	var m []Move
	for d := 1; d < p; d++ { // reduce-scatter
		to, from := (r+d)%p, (r+p-d)%p
		m = append(m, Move{To: to, From: from, Send: chunk(to), Recv: chunk(r), Add: true})
	}
	for d := 1; d < p; d++ { // all-gather
		to, from := (r+d)%p, (r+p-d)%p
		m = append(m, Move{To: to, From: from, Send: chunk(r), Recv: chunk(from)})
	}
	return Plan{p, m}
}
