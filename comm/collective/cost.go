package collective

import "slices"

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
// and InsideBeta stand for Alpha and Beta within a node; Bridge is a byte that ranks of a
// node send each other, on what they all share.
//
// Between nodes a byte may take longer than at the ends: Stream from one rank to
// another, whatever goes to others beside it, and Uplink out of a rack of Rack
// nodes, which all in it share. Extra is how many bytes each segment of a frame
// counts for there beside its own: what a call costs. All four may be 0, and Bridge.
type Links struct {
	Alpha, Beta        float64
	Inside, InsideBeta float64
	Bridge             float64
	Gamma              float64
	Stream, Uplink     float64
	Rack               int
	Extra              float64
}

// Cost prices an all-reduce of at.Bytes in elements of width bytes; at.Rank does
// not matter. A rank sends one frame at a time, receives one at a time, and waits
// only for what a frame depends on. Moves are priced whole: that their segments
// overlap is left out. What ranks share is a bound, not a queue: the time is at
// least what the busiest NIC, bridge and rack take for all their bytes.
func Cost(t Topology, at At, width int, l Links) Price {
	size, n, node := at.Size, at.Bytes/width, max(1, at.Node)
	type frame struct {
		ready, last float64 // when its first byte is there, and its last may be
		depth       int
		bytes       int
	}
	type wire struct {
		frames []frame
		free   float64 // when it may take another
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
	// between is what b bytes take from rank i to rank j: until the first is there,
	// at the ends, and on the way.
	between := func(i, j, b int) (alpha, end, way float64) {
		if i/node == j/node && node > 1 {
			return l.Inside, float64(b) * l.InsideBeta, 0
		}
		return l.Alpha, l.weight(b) * l.Beta, l.weight(b) * l.Stream
	}
	outside, inside := make([]int, (size+node-1)/node), make([]int, (size+node-1)/node)
	rack := max(1, l.Rack) * node
	out, uplink := make([]float64, len(outside)), make([]float64, (size+rack-1)/rack)
	wires := map[int]*wire{} // by sender·size + receiver
	for progress := true; progress; {
		progress = false
		for i := range ranks {
			r := &ranks[i]
			for ; r.sent < len(r.sends) && r.sends[r.sent].got <= r.got; r.sent++ {
				p := r.sends[r.sent]
				b := (p.hi - p.lo) * width
				k := i*size + p.peer
				if wires[k] == nil {
					wires[k] = &wire{}
				}
				alpha, end, way := between(i, p.peer, b)
				start := max(r.tx, r.done[p.got], wires[k].free)
				r.tx, wires[k].free = start+end, start+way
				r.bytes += b
				if i/node != p.peer/node {
					outside[i/node] += b
					out[i/node] += l.weight(b)
				} else {
					inside[i/node] += b
				}
				if i/rack != p.peer/rack {
					uplink[i/rack] += l.weight(b)
				}
				wires[k].frames = append(wires[k].frames, frame{start + alpha, start + alpha + way, r.depth[p.got] + 1, b})
				progress = true
			}
			if r.got == len(r.recvs) || r.recvs[r.got].gone > r.sent {
				continue
			}
			p := r.recvs[r.got]
			k := wires[p.peer*size+i]
			if k == nil || len(k.frames) == 0 {
				continue
			}
			f := k.frames[0]
			k.frames = k.frames[1:]
			_, end, _ := between(p.peer, i, f.bytes)
			r.rx = max(r.rx, f.ready) + end
			now := max(r.done[r.got], r.rx, f.last)
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
	p.Seconds = max(p.Seconds, slices.Max(out)*l.Beta, float64(slices.Max(inside))*l.Bridge, slices.Max(uplink)*l.Uplink)
	return p
}

// weight is how many bytes a frame of b bytes counts for between nodes.
func (l Links) weight(b int) float64 {
	return float64(b) + float64((b+pieceBytes-1)/pieceBytes)*l.Extra
}
