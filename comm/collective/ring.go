package collective

// Ring is the bandwidth-optimal all-reduce (Patarasuk and Yuan 2009; Gibiansky
// 2017): P−1 reduce-scatter steps in which each rank passes one chunk on and
// adds the one it gets, then P−1 all-gather steps. A rank sends
// 2·n·(P−1)/P elements, independent of P for large P, in 2(P−1) steps: good for
// large vectors, slow for small ones on slow links.
//
// Rule: a reduce-scatter, then an all-gather, each around the ring.
//
// Tuning: none.
//
// Cost: 2·n·(P−1)/P elements a rank, 2(P−1) steps.
type Ring struct{}

var _ = Topologies.Add("ring", "reduce-scatter and all-gather around a ring: least bytes, 2(P−1) steps", Ring{})

// Plan implements Topology.
func (Ring) Plan(at At) Plan {
	all := circle{
		size: at.Size, me: at.Rank,
		rank:  func(i int) int { return i },
		slice: func(i int) Range { return Range{i, i + 1} },
	}
	return Plan{at.Size, all.gather(all.scatter(make([]Move, 0, 2*(at.Size-1))))}
}

// circle is some ranks that pass slices of a vector around, as many as they are.
type circle struct {
	size, me int
	rank     func(i int) int
	slice    func(i int) Range
}

// scatter appends the reduce-scatter around the circle: member i ends with the
// sum of slice i+1.
func (c circle) scatter(m []Move) []Move { return c.pass(m, c.me, true) }

// gather appends the all-gather that begins where scatter ended.
func (c circle) gather(m []Move) []Move { return c.pass(m, c.me+1, false) }

// pass sends slice first to the next member, then what came from the one before.
func (c circle) pass(m []Move, first int, add bool) []Move {
	at := func(i int) int { return (i + c.size) % c.size }
	for s := range c.size - 1 {
		m = append(m, Move{
			To: c.rank(at(c.me + 1)), From: c.rank(at(c.me - 1)),
			Send: c.slice(at(first - s)), Recv: c.slice(at(first - s - 1)), Add: add,
		})
	}
	return m
}
