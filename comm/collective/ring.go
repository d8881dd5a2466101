package collective

// Ring is the bandwidth-optimal all-reduce (Patarasuk and Yuan 2009; Gibiansky
// 2017): P−1 reduce-scatter steps in which each rank passes one chunk on and
// adds the one it gets, then P−1 all-gather steps. A rank sends
// 2·n·(P−1)/P elements, independent of P for large P, in 2(P−1) steps: good for
// large vectors, slow for small ones on slow links.
type Ring struct{}

var _ = Topologies.Add("ring", "reduce-scatter and all-gather around a ring: least bytes, 2(P−1) steps", Ring{})

// Plan implements Topology.
func (Ring) Plan(at At) Plan {
	p, r := at.Size, at.Rank
	chunk := func(c int) Part { c = ((c % p) + p) % p; return Part{c, c + 1} }
	next, prev := (r+1)%p, (r+p-1)%p
	var m []Move
	for s := 0; s < p-1; s++ {
		m = append(m, Move{To: next, From: prev, Send: chunk(r - s), Recv: chunk(r - s - 1), Add: true})
	}
	for s := 0; s < p-1; s++ {
		m = append(m, Move{To: next, From: prev, Send: chunk(r + 1 - s), Recv: chunk(r - s)})
	}
	return Plan{p, m}
}
