package collective

import (
	"fmt"
	"math/bits"
)

// Verify proves t for the size, the length and the nodes of at, whatever its
// rank, by running the plan of every rank: it fails unless the plan ends without
// a deadlock, every frame is received with the shape it was sent with, and every
// rank then holds each rank's contribution to each chunk exactly once.
func Verify(t Topology, at At) error {
	p, err := newProof(t, at)
	if err == nil {
		err = p.order()
	}
	for lo := 0; err == nil && lo < p.chunks; lo += p.window() {
		err = p.follow(lo, min(lo+p.window(), p.chunks))
	}
	if err != nil {
		return fmt.Errorf("collective: %d ranks: %w", at.Size, err)
	}
	return nil
}

// proof is a plan that is being proved.
type proof struct {
	size, chunks int
	plans        [][]Move
	done         []half // in an order in which they can be made
}

// half is a move's send or its receive.
type half struct {
	rank, move int
	recv       bool
}

func newProof(t Topology, at At) (*proof, error) {
	p := &proof{size: at.Size, plans: make([][]Move, at.Size)}
	for r := range p.plans {
		at.Rank = r
		plan := t.Plan(at)
		if r == 0 {
			p.chunks = plan.Chunks
		}
		if plan.Chunks != p.chunks || plan.Chunks < 1 {
			return nil, fmt.Errorf("rank %d cuts %d chunks, rank 0 cuts %d", r, plan.Chunks, p.chunks)
		}
		for i, m := range plan.Moves {
			if m.To >= 0 && !p.allows(r, m.To, m.Send) {
				return nil, fmt.Errorf("rank %d, move %d sends %v of %d chunks to %d", r, i, m.Send, p.chunks, m.To)
			}
			if m.From >= 0 && !p.allows(r, m.From, m.Recv) {
				return nil, fmt.Errorf("rank %d, move %d receives %v of %d chunks from %d", r, i, m.Recv, p.chunks, m.From)
			}
		}
		p.plans[r] = plan.Moves
	}
	return p, nil
}

func (p *proof) allows(rank, peer int, chunks Range) bool {
	return peer < p.size && peer != rank && chunks.Lo >= 0 && chunks.Hi <= p.chunks && chunks.Lo < chunks.Hi
}

// order finds an order in which the moves can be made, and looks at the shape of
// every frame.
func (p *proof) order() error {
	type frame struct {
		from, to int
		chunks   Range
	}
	wires := map[[2]int][]frame{}
	at, sent := make([]int, p.size), make([]bool, p.size)
	waiting := make([][]int, p.size) // for a frame of this rank
	ready := make([]int, p.size)
	for r := range ready {
		ready[r] = r
	}
	for len(ready) > 0 {
		r := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for ; at[r] < len(p.plans[r]); at[r], sent[r] = at[r]+1, false {
			m := p.plans[r][at[r]]
			if m.To >= 0 && !sent[r] {
				k := [2]int{r, m.To}
				wires[k] = append(wires[k], frame{r, m.To, m.Send})
				p.done = append(p.done, half{r, at[r], false})
				ready, waiting[r] = append(ready, waiting[r]...), waiting[r][:0]
			}
			sent[r] = true
			if m.From < 0 {
				continue
			}
			k := [2]int{m.From, r}
			if len(wires[k]) == 0 {
				waiting[m.From] = append(waiting[m.From], r)
				break
			}
			if f := wires[k][0]; f.chunks != m.Recv {
				return fmt.Errorf("rank %d, move %d: %d sent chunks %v, expected %v", r, at[r], m.From, f.chunks, m.Recv)
			}
			wires[k] = wires[k][1:]
			p.done = append(p.done, half{r, at[r], true})
		}
	}
	for r := range at {
		if at[r] < len(p.plans[r]) {
			return fmt.Errorf("deadlock: rank %d waits in move %d for a frame of %d", r, at[r], p.plans[r][at[r]].From)
		}
	}
	for k, fs := range wires {
		if len(fs) > 0 {
			return fmt.Errorf("rank %d leaves %d frame(s) to %d unread", k[0], len(fs), k[1])
		}
	}
	return nil
}

// window is how many chunks are followed at once: few enough for memory.
func (p *proof) window() int {
	const words = 4 << 20
	return max(1, words/(2*p.size*p.words()))
}

func (p *proof) words() int { return (p.size + 63) / 64 }

// follow makes the moves on sets of contributors for the chunks [lo, hi): those
// that a rank holds, and behind them those that it holds more than once.
func (p *proof) follow(lo, hi int) error {
	w, n := p.words(), hi-lo
	have := make([]uint64, p.size*n*2*w)
	set := func(rank, chunk int) []uint64 {
		i := (rank*n + chunk - lo) * 2 * w
		return have[i : i+2*w]
	}
	for r := range p.size {
		for c := lo; c < hi; c++ {
			set(r, c)[r/64] |= 1 << (r % 64)
		}
	}
	wires := map[[2]int][][]uint64{}
	for _, d := range p.done {
		m := &p.plans[d.rank][d.move]
		if !d.recv {
			k := [2]int{d.rank, m.To}
			for c := max(lo, m.Send.Lo); c < min(hi, m.Send.Hi); c++ {
				wires[k] = append(wires[k], append([]uint64(nil), set(d.rank, c)...))
			}
			continue
		}
		k := [2]int{m.From, d.rank}
		for c := max(lo, m.Recv.Lo); c < min(hi, m.Recv.Hi); c++ {
			in, own := wires[k][0], set(d.rank, c)
			wires[k] = wires[k][1:]
			if !m.Add {
				copy(own, in)
				continue
			}
			for i := range w {
				own[w+i] |= in[w+i] | own[i]&in[i]
				own[i] |= in[i]
			}
		}
	}
	for r := range p.size {
		for c := lo; c < hi; c++ {
			s, held := set(r, c), 0
			for i := range w {
				if s[w+i] != 0 {
					return fmt.Errorf("rank %d holds rank %d's chunk %d more than once", r, 64*i+bits.TrailingZeros64(s[w+i]), c)
				}
				held += bits.OnesCount64(s[i])
			}
			if held != p.size {
				return fmt.Errorf("rank %d holds chunk %d of %d ranks", r, c, held)
			}
		}
	}
	return nil
}
