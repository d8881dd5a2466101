package collective

// Price is what a plan costs.
type Price struct {
	Steps    int     // longest chain of dependent frames
	Messages int     // frames sent by the busiest rank
	Sent     int     // bytes sent by the busiest rank
	Outside  int     // bytes that the busiest node sends to others
	Seconds  float64 // alpha-beta-gamma time of the critical path
}

// Links is what frames and sums cost, in seconds (Hockney's model): Alpha a
// frame, Beta a byte at each of a rank's ends, Gamma a byte that is added. Inside
// and InsideBeta stand for Alpha and Beta within a node.
type Links struct {
	Alpha, Beta        float64
	Inside, InsideBeta float64
	Gamma              float64
}

// Cost prices an all-reduce of at.Bytes in elements of width bytes; at.Rank does
// not matter. A rank sends one frame at a time, receives one at a time, and waits
// only for what a frame depends on. Moves are priced whole: that their pieces
// overlap is left out, and so is that ranks of a node share its NIC.
func Cost(t Topology, at At, width int, l Links) Price {
	size, n, node := at.Size, at.Bytes/width, max(1, at.Node)
	type frame struct {
		ready float64
		depth int
		bytes int
	}
	type rank struct {
		*program
		sent, got int
		done      []float64 // when the first i receives are complete
		depth     []int     // the longest chain that ends in them
		tx, rx    float64
		bytes     int
	}
	ranks := make([]rank, size)
	for r := range ranks {
		at.Rank = r
		p := cut(t.Plan(at), n, n)
		ranks[r] = rank{program: p, done: make([]float64, 1, 1+len(p.recvs)), depth: make([]int, 1, 1+len(p.recvs))}
	}
	between := func(a, b int) (alpha, beta float64) {
		if a/node == b/node && node > 1 {
			return l.Inside, l.InsideBeta
		}
		return l.Alpha, l.Beta
	}
	outside := make([]int, (size+node-1)/node)
	wires := map[int][]frame{} // by sender·size + receiver
	for progress := true; progress; {
		progress = false
		for i := range ranks {
			r := &ranks[i]
			for ; r.sent < len(r.sends) && r.sends[r.sent].got <= r.got; r.sent++ {
				p := r.sends[r.sent]
				b := (p.hi - p.lo) * width
				alpha, beta := between(i, p.peer)
				start := max(r.tx, r.done[p.got])
				r.tx = start + float64(b)*beta
				r.bytes += b
				if i/node != p.peer/node {
					outside[i/node] += b
				}
				k := i*size + p.peer
				wires[k] = append(wires[k], frame{start + alpha, r.depth[p.got] + 1, b})
				progress = true
			}
			if r.got == len(r.recvs) || r.recvs[r.got].gone > r.sent {
				continue
			}
			p := r.recvs[r.got]
			k := p.peer*size + i
			if len(wires[k]) == 0 {
				continue
			}
			_, beta := between(i, p.peer)
			f := wires[k][0]
			wires[k] = wires[k][1:]
			r.rx = max(r.rx, f.ready) + float64(f.bytes)*beta
			now := max(r.done[r.got], r.rx)
			if p.add {
				now += float64(f.bytes) * l.Gamma
			}
			r.done = append(r.done, now)
			r.depth = append(r.depth, max(r.depth[r.got], f.depth))
			r.got++
			progress = true
		}
	}
	var p Price
	for i := range ranks {
		r := &ranks[i]
		p.Steps = max(p.Steps, r.depth[r.got])
		p.Messages = max(p.Messages, r.sent)
		p.Sent = max(p.Sent, r.bytes)
		p.Seconds = max(p.Seconds, r.done[r.got], r.tx)
	}
	for _, b := range outside {
		p.Outside = max(p.Outside, b)
	}
	return p
}
