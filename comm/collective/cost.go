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
func Cost(t Topology, at At, width int, l Links) Price { return NewFrames(t, at, width).Price(l) }

// Frames are those of an all-reduce, to be priced under several Links. They take some 30
// bytes a frame.
type Frames struct {
	size, node int
	wires      int
	ranks      []framesOf
}

// framesOf are those of a rank, in the order in which it sends and receives them.
type framesOf struct {
	sends []frameOut
	recvs []frameIn
}

type frameOut struct {
	wire, peer, got int32 // got: so many receives come first
	bytes           int
}

type frameIn struct {
	wire, gone int32 // gone: so many sends come first
	add        bool
}

// NewFrames lists what Cost prices.
func NewFrames(t Topology, at At, width int) *Frames {
	n := at.Bytes / width
	f := &Frames{size: at.Size, node: max(1, at.Node), ranks: make([]framesOf, at.Size)}
	wires := map[[2]int]int32{} // from a rank to another
	wire := func(from, to int) int32 {
		w, ok := wires[[2]int{from, to}]
		if !ok {
			w = int32(len(wires))
			wires[[2]int{from, to}] = w
		}
		return w
	}
	for r := range f.ranks {
		at.Rank = r
		p := cut(t.Plan(at), n, n)
		own := framesOf{make([]frameOut, len(p.sends)), make([]frameIn, len(p.recvs))}
		for i, s := range p.sends {
			own.sends[i] = frameOut{wire(r, s.peer), int32(s.peer), int32(s.got), (s.hi - s.lo) * width}
		}
		for i, s := range p.recvs {
			own.recvs[i] = frameIn{wire(s.peer, r), int32(s.gone), s.add}
		}
		f.ranks[r] = own
	}
	f.wires = len(wires)
	return f
}

// Price is the cost under links.
func (f *Frames) Price(l Links) Price {
	type frame struct {
		ready, last, end float64 // when its first byte is there, and its last may be; what it takes at an end
		depth            int32
		bytes            int
	}
	type wire struct {
		frames []frame // that have not been received
		next   int     // the first of them
		free   float64 // when it may take another
	}
	type rank struct {
		framesOf
		sent, got int
		done      []float64 // when the first i receives are complete
		depth     []int32   // the longest chain that ends in them
		tx, rx    float64
		bytes     int
	}
	size, node := f.size, f.node
	ranks, wires := make([]rank, size), make([]wire, f.wires)
	for r, own := range f.ranks {
		ranks[r] = rank{framesOf: own, done: make([]float64, 1, 1+len(own.recvs)), depth: make([]int32, 1, 1+len(own.recvs))}
	}
	outside, inside := make([]int, (size+node-1)/node), make([]int, (size+node-1)/node)
	rack := max(1, l.Rack) * node
	out, uplink := make([]float64, len(outside)), make([]float64, (size+rack-1)/rack)
	for progress := true; progress; {
		progress = false
		for i := range ranks {
			r := &ranks[i]
			for ; r.sent < len(r.sends) && int(r.sends[r.sent].got) <= r.got; r.sent++ {
				p := &r.sends[r.sent]
				b, peer, w := p.bytes, int(p.peer), &wires[p.wire]
				// Until the first byte is there, at the ends, and on the way.
				weight := l.weight(b)
				alpha, end, way := l.Alpha, weight*l.Beta, weight*l.Stream
				if i/node == peer/node && node > 1 {
					alpha, end, way = l.Inside, float64(b)*l.InsideBeta, 0
				}
				start := max(r.tx, r.done[p.got], w.free)
				r.tx, w.free = start+end, start+way
				r.bytes += b
				if i/node != peer/node {
					outside[i/node] += b
					out[i/node] += weight
				} else {
					inside[i/node] += b
				}
				if i/rack != peer/rack {
					uplink[i/rack] += weight
				}
				if w.next == len(w.frames) {
					w.frames, w.next = w.frames[:0], 0
				}
				w.frames = append(w.frames, frame{start + alpha, start + alpha + way, end, r.depth[p.got] + 1, b})
				progress = true
			}
			if r.got == len(r.recvs) || int(r.recvs[r.got].gone) > r.sent {
				continue
			}
			p := &r.recvs[r.got]
			w := &wires[p.wire]
			if w.next == len(w.frames) {
				continue
			}
			in := &w.frames[w.next]
			w.next++
			r.rx = max(r.rx, in.ready) + in.end
			now := max(r.done[r.got], r.rx, in.last)
			if p.add {
				now += float64(float64(in.bytes) * l.Gamma)
			}
			r.done = append(r.done, now)
			r.depth = append(r.depth, max(r.depth[r.got], in.depth))
			r.got++
			progress = true
		}
	}
	var p Price
	for i := range ranks {
		r := &ranks[i]
		p.Steps = max(p.Steps, int(r.depth[r.got]))
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
	return float64(b) + float64(float64((b+pieceBytes-1)/pieceBytes)*l.Extra)
}
