package mean

import "github.com/gradlab/gradlab/comm/collective"

// count counts what this rank would have sent in the exchange of a bucket.
func (r *reducer) count(b *bucket) {
	k := [2]int{b.lo, b.hi}
	sum, ok := r.counts[k]
	if !ok {
		pt := r.shard.Part(b.lo, b.hi)
		if r.all { // everybody gets everybody's payload
			raw, bf16 := pt.Plain()
			sum = [2]int{(r.Job().Workers - 1) * raw, (r.Job().Workers - 1) * bf16}
		} else {
			sum = [2]int{r.moves(pt.Size, 4), r.moves(pt.Size-pt.Exact, 2) + r.moves(pt.Exact, 4)}
		}
		r.counts[k] = sum
	}
	n := max(1, r.steps)
	r.Host().Traffic().Plain(n*sum[0], n*sum[1])
}

// moves is the bytes that this rank sends in an all-reduce of n elements.
func (r *reducer) moves(n, width int) (bytes int) {
	if n == 0 || r.Job().Workers == 1 || r.Job().Topology == nil { // which codecs that are gathered do without
		return 0
	}
	p := r.Job().Topology.Plan(collective.At{Rank: r.ID(), Size: r.Job().Workers, Bytes: n * width, Node: r.Job().Node})
	for _, m := range p.Moves {
		if m.To >= 0 {
			lo, hi := collective.Bounds(m.Send, p.Chunks, n)
			bytes += (hi - lo) * width
		}
	}
	return bytes
}
