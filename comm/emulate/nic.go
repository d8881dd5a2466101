package emulate

import "time"

const (
	// quantumTime is what a stream is served at a turn, in time of its NIC: short
	// beside what a gradient takes, long beside what a wake-up costs.
	quantumTime = 500 * time.Microsecond
	// window is how many quanta of a stream may be announced and not taken by the
	// receiver's NIC. It is returned in halves.
	window = 16
)

// quantum is a piece of a stream as its sender announces it.
type quantum struct {
	bytes int
	left  time.Duration // the instant at which its last byte has left
	last  bool          // of its frame
}

// wire is where a NIC says what others must know.
type wire interface {
	announce(to int, q quantum)  // a quantum begins to leave
	credit(to int, n int)        // n more quanta of that rank's may come
	arrive(from int, at instant) // the next frame of that rank is there at an instant
}

type instant = time.Duration

// nic is the NIC of a rank: when what leaves and when what comes is there. It
// holds neither frames nor clocks; whoever calls it says what instant it is, in
// order.
type nic struct {
	NIC
	wire    wire
	quantum int // bytes
	out     line[*outgoing]
	in      line[*incoming]
	to      []outgoing // by rank
	from    []incoming
}

// outgoing is the stream to a rank.
type outgoing struct {
	rank   int
	frames []leaving // the first being served
	credit int
	open   instant // since when there is credit
	gone   bool
}

// leaving is a frame that has not left.
type leaving struct {
	bytes float64 // of it that have not
	sent  instant
}

// incoming is the stream from a rank.
type incoming struct {
	rank   int
	quanta []quantum // not taken yet
	taken  int       // for which no credit was given yet
	last   instant   // when the last frame of it was, or will be, there
}

func newNIC(n NIC, ranks int, w wire) *nic {
	x := &nic{NIC: n, wire: w, to: make([]outgoing, ranks), from: make([]incoming, ranks)}
	x.out.rate, x.in.rate = n.Bandwidth, n.Bandwidth
	x.quantum = max(1, int(n.Bandwidth*quantumTime.Seconds()))
	for r := range ranks {
		x.to[r] = outgoing{rank: r, credit: window}
		x.from[r] = incoming{rank: r}
	}
	return x
}

// due is when the NIC has something to do by itself.
func (x *nic) due() (at instant, ok bool) {
	at, ok = x.out.due()
	if in, also := x.in.due(); also && (!ok || in < at) {
		at, ok = in, true
	}
	return at, ok
}

// step does all that is due.
func (x *nic) step(now instant) {
	for s, ok := x.out.next(now); ok; s, ok = x.out.next(now) {
		x.leave(s)
	}
	for s, ok := x.in.next(now); ok; s, ok = x.in.next(now) {
		x.take(s)
	}
}

// send lets a frame of so many billed bytes leave for a rank. One of none takes
// its latency alone, in order with the others.
func (x *nic) send(now instant, rank, bytes int) {
	s := &x.to[rank]
	if s.gone {
		return
	}
	size := float64(bytes)
	if bytes > 0 {
		size += float64(x.Message.Seconds() * x.Bandwidth)
	}
	s.frames = append(s.frames, leaving{size, now})
	if len(s.frames) > 1 {
		return
	}
	x.pass(s, now)
	if s.wants() {
		x.out.queue(s)
		x.step(now)
	}
}

// wants says whether a stream may be served.
func (s *outgoing) wants() bool { return len(s.frames) > 0 && s.credit > 0 }

// leave serves a stream once.
func (x *nic) leave(s *outgoing) {
	if s.gone {
		return
	}
	f := &s.frames[0]
	q := quantum{bytes: min(x.quantum, int(f.bytes+0.5))}
	f.bytes -= float64(q.bytes)
	q.last = f.bytes < 1
	q.left = x.out.serve(float64(q.bytes), max(f.sent, s.open))
	s.credit--
	x.wire.announce(s.rank, q)
	if q.last {
		s.frames = s.frames[:copy(s.frames, s.frames[1:])]
		x.pass(s, q.left)
	}
	if s.wants() {
		x.out.requeue(s)
	}
}

// pass lets frames without bytes go that have come to the front.
func (x *nic) pass(s *outgoing, at instant) {
	for len(s.frames) > 0 && s.frames[0].bytes == 0 {
		at = max(at, s.frames[0].sent)
		s.frames = s.frames[:copy(s.frames, s.frames[1:])]
		x.wire.announce(s.rank, quantum{left: at, last: true})
	}
}

// credited notes that a receiver takes n quanta more.
func (x *nic) credited(now instant, rank, n int) {
	s := &x.to[rank]
	blocked := s.credit == 0
	if s.credit += n; !blocked {
		return
	}
	if s.open = now; s.wants() {
		x.out.queue(s)
		x.step(now)
	}
}

// announced notes a quantum that is leaving a rank. It is none larger than a
// quantum, and cannot have begun to leave later than now.
func (x *nic) announced(now instant, rank int, q quantum) {
	q.bytes = min(max(q.bytes, 0), x.quantum)
	q.left = min(max(q.left, 0), now+x.in.takes(float64(q.bytes)))
	s := &x.from[rank]
	if q.bytes == 0 && len(s.quanta) == 0 {
		x.there(s, q.left)
		return
	}
	if s.quanta = append(s.quanta, q); len(s.quanta) == 1 {
		x.in.queue(s)
		x.step(now)
	}
}

// take lets a stream's next quantum in, and those without bytes behind it.
func (x *nic) take(s *incoming) {
	size := float64(s.quanta[0].bytes)
	at := x.in.serve(size, s.quanta[0].left-x.in.takes(size)) // an idle NIC takes bytes in as they leave
	n := 0
	for n < len(s.quanta) && (n == 0 || s.quanta[n].bytes == 0) {
		if s.quanta[n].last {
			x.there(s, max(at, s.quanta[n].left))
		}
		n++
	}
	s.quanta = s.quanta[:copy(s.quanta, s.quanta[n:])]
	if s.taken++; s.taken == window/2 {
		x.wire.credit(s.rank, s.taken)
		s.taken = 0
	}
	if len(s.quanta) > 0 {
		x.in.requeue(s)
	}
}

// there lets the next frame of a stream arrive, after those before it.
func (x *nic) there(s *incoming, through instant) {
	s.last = max(s.last, through+x.Latency)
	x.wire.arrive(s.rank, s.last)
}

// coming is how many frames of a rank are announced whole and not taken yet.
func (x *nic) coming(rank int) (n int) {
	for _, q := range x.from[rank].quanta {
		if q.last {
			n++
		}
	}
	return n
}

// lose forgets what was to leave for a rank that is gone.
func (x *nic) lose(rank int) {
	x.to[rank].gone, x.to[rank].frames = true, nil
}

// idle says whether nothing waits to leave.
func (x *nic) idle() bool {
	for i := range x.to {
		if len(x.to[i].frames) > 0 {
			return false
		}
	}
	return true
}
