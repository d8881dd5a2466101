package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Fair is a flow-level network: frames between two ranks form an ordered byte
// stream of which the first frame moves, and streams share what they pass
// through max-min fairly (progressive filling: Bertsekas and Gallager 1992,
// §6.5.2). A frame arrives Latency after its last byte has left.
//
// A stream passes through the sending and the receiving NIC of its hosts; with
// racks, also through the links of its racks to the core, if it leaves them.
// Ranks of one host talk through its memory instead, and through its bridge.
//
// Rates are solved once per instant at which streams began or ended, and only
// for the streams that share something with these, directly or through others.
// Frames of no billed bytes take their latency alone, in order with the others.
type Fair struct {
	Bandwidth float64       // bytes per second of a NIC, each direction; 0: unlimited
	Latency   time.Duration // one way between hosts
	// Stream is the most that one stream between hosts carries, whatever the NICs
	// would: of TCP, what one connection gets out of its host. 0: as much as they.
	Stream float64
	// Message is how long a frame keeps its stream busy beside its bytes, as if
	// it had that much more of them: what a call costs its host.
	Message time.Duration

	// Place says on which host each rank is; ranks behind its end are on one of
	// their own each. nil: all are.
	Place         []int
	Inside        float64       // bytes per second between ranks of a host, of each rank and direction; 0: unlimited
	InsideLatency time.Duration // one way within a host
	// Bridge is what all ranks of a host together send to one another, bytes per second, as
	// where their links meet in one bridge of the host; 0: unlimited.
	Bridge float64

	// Rack is the number of hosts in a rack, 0 for a flat network. Its link to
	// the core carries Rack·Bandwidth/Oversubscription each way.
	Rack             int
	Oversubscription float64 // at least 1; 0 is 1

	host      []int // of each rank
	hosts     int
	racks     int
	resources []resource
	streams   []streams // by sender
	active    finishes
	dirty     []*resource // a stream of theirs began or ended
	begun     uint64      // streams activated so far

	epoch  uint64 // of the solution
	inside []*resource
	share  shares
}

// resource is something streams share: a direction of a NIC, of a rack's link or
// of a rank's memory, or the bridge of a host. What solving looks at comes first, in one line of cache.
type resource struct {
	capacity float64
	users    []*stream // active
	epoch    uint64    // of the solution that visited it
	room     float64   // while rates are solved
	count    int       // users without a rate yet
	level    float64   // room/count when it was last looked at

	ended float64 // least rate of the streams that ended since rates were solved
	dirty bool
	bytes uint64        // that are through
	busy  time.Duration // with users, up to since if there are any now
	since time.Duration
}

const maxPath = 4

// stream is what goes from one rank to another. What solving looks at comes
// first, in one line of cache.
type stream struct {
	rate  float64
	epoch uint64 // of the solution that visited it
	fixed uint64 // of the solution that gave it its rate
	hops  int
	path  [maxPath]*resource

	user    [maxPath]int // where it is in users of each
	cap     float64      // the most it carries; +Inf: as much as there is
	left    float64      // bytes of the first frame to move at since
	since   time.Duration
	finish  time.Duration // of the first frame
	order   uint64        // of becoming active
	place   int           // in active
	began   time.Duration
	latency time.Duration
	extra   float64 // bytes a message counts for beside its own
	to      int
	queue   deque[queued]
	road    road
}

// queued is a frame in a stream.
type queued struct {
	frame comm.Frame
	sent  time.Duration
}

// streams are those of one sender. Most ranks send to the same one again, or to
// few.
type streams struct {
	last *stream
	to   map[int]*stream
}

func (s *streams) find(to int) *stream {
	if s.last == nil || s.last.to != to {
		if o := s.to[to]; o != nil {
			s.last = o
		} else {
			return nil
		}
	}
	return s.last
}

func (n *Fair) reset(ranks int) {
	n.host = make([]int, ranks)
	n.hosts, n.racks = 0, 0
	for r := range n.host {
		n.host[r] = n.hosts
		if r < len(n.Place) {
			n.host[r] = n.Place[r]
		}
		n.hosts = max(n.hosts, n.host[r]+1)
	}
	n.streams, n.active, n.dirty, n.begun, n.epoch = make([]streams, ranks), nil, nil, 0, 0

	// Sending and receiving sides: of hosts, of racks, of ranks within hosts. Then bridges.
	uplink := 0.0
	if n.Rack > 0 {
		n.racks = (n.hosts + n.Rack - 1) / n.Rack
		uplink = float64(n.Rack) * n.Bandwidth / max(n.Oversubscription, 1)
	}
	n.resources = make([]resource, 0, 2*(n.hosts+n.racks+ranks)+n.hosts)
	for _, k := range []struct {
		count    int
		capacity float64
	}{{n.hosts, n.Bandwidth}, {n.racks, uplink}, {ranks, n.Inside}} {
		for range 2 * k.count {
			n.resources = append(n.resources, resource{capacity: k.capacity, ended: math.Inf(1)})
		}
	}
	if n.Bridge > 0 {
		for range n.hosts {
			n.resources = append(n.resources, resource{capacity: n.Bridge, ended: math.Inf(1)})
		}
	}
}

// newStream finds what a stream passes through; nothing, if nothing limits it.
func (n *Fair) newStream(from, to int) *stream {
	a, b := n.host[from], n.host[to]
	s := &stream{to: to, cap: math.Inf(1), latency: n.Latency}
	through := func(r *resource) {
		s.path[s.hops] = r
		s.hops++
	}
	switch {
	case a == b:
		s.latency = n.InsideLatency
		if n.Inside > 0 {
			base := 2 * (n.hosts + n.racks)
			through(&n.resources[base+2*from])
			through(&n.resources[base+2*to+1])
		}
		if n.Bridge > 0 {
			through(&n.resources[2*(n.hosts+n.racks+len(n.host))+a])
		}
	case n.Bandwidth > 0:
		through(&n.resources[2*a])
		through(&n.resources[2*b+1])
		if n.Rack > 0 && a/n.Rack != b/n.Rack && n.Oversubscription > 1 {
			base := 2 * n.hosts
			through(&n.resources[base+2*(a/n.Rack)])
			through(&n.resources[base+2*(b/n.Rack)+1])
		}
		if n.Stream > 0 {
			s.cap = n.Stream
		}
		s.extra = n.Message.Seconds() * min(n.Bandwidth, s.cap)
	}
	return s
}

func (n *Fair) road(from, to int) *road {
	if s := n.streams[from].find(to); s != nil {
		return &s.road
	}
	return nil
}

func (n *Fair) start(l *loop, f comm.Frame) {
	from, to := int(f.Header.From), int(f.Header.To)
	s := n.streams[from].find(to)
	if s == nil {
		s = n.newStream(from, to)
		if n.streams[from].to == nil {
			n.streams[from].to = map[int]*stream{}
		}
		n.streams[from].to[to] = s
	}
	s.road.onWay++
	if s.queue.len() == 0 && (f.Billed == 0 || s.hops == 0) {
		l.depart(f, passing{l.now, l.now, l.now, l.now + s.latency}, &s.road)
		return
	}
	s.queue.push(queued{f, l.now})
	if s.queue.len() > 1 {
		return
	}
	s.load(l.now)
	n.begun++
	s.order, s.rate, s.finish = n.begun, 0, math.MaxInt64
	n.active.add(s)
	for i, r := range s.path[:s.hops] {
		if len(r.users) == 0 {
			r.since = l.now
		}
		s.user[i] = len(r.users)
		r.users = append(r.users, s)
		n.touch(r)
	}
}

// load makes the first frame the one that moves.
func (s *stream) load(now time.Duration) {
	s.left, s.began, s.since = float64(s.queue.at(0).frame.Billed), now, now
	if s.left > 0 {
		s.left += s.extra
	}
}

func (n *Fair) touch(r *resource) {
	if !r.dirty {
		r.dirty = true
		n.dirty = append(n.dirty, r)
	}
}

func (n *Fair) usage(now time.Duration) (links []Link) {
	for i := range n.resources {
		r := &n.resources[i]
		l := Link{Kind: "nic", Index: i / 2, Out: i%2 == 0, Capacity: r.capacity, Bytes: r.bytes, Busy: r.busy}
		switch racks, ranks, bridges := 2*n.hosts, 2*(n.hosts+n.racks), 2*(n.hosts+n.racks+len(n.host)); {
		case i >= bridges:
			l.Kind, l.Index, l.Out = "bridge", i-bridges, false
		case i >= ranks:
			l.Kind, l.Index = "memory", (i-ranks)/2
		case i >= racks:
			l.Kind, l.Index = "rack", (i-racks)/2
		}
		if len(r.users) > 0 {
			l.Busy += now - r.since
		}
		links = append(links, l)
	}
	return links
}

func (n *Fair) settle(l *loop) (time.Duration, bool) {
	if len(n.dirty) > 0 {
		// Streams that begin at this same instant join the same solution.
		if next := l.queue.next(); next != nil && next.at <= l.now {
			return 0, false
		}
		n.solve(l.now)
	}
	if len(n.active) == 0 {
		return 0, false
	}
	return n.active[0].at, true
}

// advance completes the frames that are through at this instant.
func (n *Fair) advance(l *loop) {
	for len(n.active) > 0 && n.active[0].at <= l.now {
		s := n.active[0].stream
		for {
			q := s.queue.pop()
			for _, r := range s.path[:s.hops] {
				r.bytes += uint64(q.frame.Billed)
			}
			l.depart(q.frame, passing{q.sent, s.began, l.now, l.now + s.latency}, &s.road)
			if s.queue.len() == 0 || s.queue.at(0).frame.Billed > 0 {
				break
			}
			s.began = l.now
		}
		if s.queue.len() > 0 { // the next one moves on at the same rate
			s.load(l.now)
			s.finish = l.now + seconds(s.left/s.rate)
			n.active.moved(s)
			continue
		}
		n.active.remove(s)
		for i, r := range s.path[:s.hops] {
			last := r.users[len(r.users)-1]
			r.users[s.user[i]] = last
			for j, p := range last.path[:last.hops] {
				if p == r {
					last.user[j] = s.user[i]
				}
			}
			r.users[len(r.users)-1] = nil
			if r.users = r.users[:len(r.users)-1]; len(r.users) == 0 {
				r.busy += l.now - r.since
			}
			r.ended = min(r.ended, s.rate)
			n.touch(r)
		}
	}
}

// solve fills rates progressively: the resource with the least room per stream
// fixes its streams, until none is left. Only what hangs together with dirty
// resources is looked at, and of that only what the filling comes to once it
// differs from the one before: see firstChange.
func (n *Fair) solve(now time.Duration) {
	n.epoch++
	n.solveAlone(now)
	from := n.firstChange()
	todo := n.inside[:0]
	visit := func(r *resource) {
		if r.epoch != n.epoch {
			r.epoch = n.epoch
			todo = append(todo, r)
		}
	}
	for _, r := range n.dirty {
		r.dirty, r.ended = false, math.Inf(1)
		visit(r)
	}
	n.dirty = n.dirty[:0]
	left := 0
	for i := 0; i < len(todo); i++ {
		r := todo[i]
		r.room, r.count = r.capacity, 0
		for _, s := range r.users {
			if s.rate > 0 && s.rate < from {
				r.room -= s.rate
				continue
			}
			r.count++
			if s.epoch == n.epoch {
				continue
			}
			s.epoch = n.epoch
			left++
			for _, r := range s.path[:s.hops] {
				visit(r)
			}
		}
	}
	n.share = n.share[:0]
	for _, r := range todo {
		if r.count > 0 {
			r.room = max(r.room, 0)
			r.level = r.room / float64(r.count)
			n.share = append(n.share, r)
		}
	}
	n.share.init()
	for left > 0 {
		r := n.share[0]
		// Levels only rise as streams are fixed elsewhere: one that has not is
		// the least.
		if r.count == 0 {
			n.share.pop()
			continue
		}
		if level := r.room / float64(r.count); level > r.level {
			r.level = level
			n.share.down(0)
			continue
		}
		// Streams that carry less than the least level were full before.
		rate := r.level
		if n.Stream > 0 && n.Stream < rate && r.capped(n.epoch) {
			rate = n.Stream
		}
		for _, s := range r.users {
			if s.epoch != n.epoch || s.fixed == n.epoch || rate < r.level && s.cap > rate {
				continue
			}
			s.fixed = n.epoch
			left--
			for _, p := range s.path[:s.hops] {
				p.room = max(p.room-rate, 0)
				p.count--
			}
			n.setRate(s, rate, now)
		}
	}
	n.inside = todo
}

// capped says whether a stream without a rate carries less than the level.
func (r *resource) capped(epoch uint64) bool {
	for _, s := range r.users {
		if s.cap < r.level && s.epoch == epoch && s.fixed != epoch {
			return true
		}
	}
	return false
}

// solveAlone gives streams that share nothing their rates and leaves the other
// resources dirty.
func (n *Fair) solveAlone(now time.Duration) {
	shared := n.dirty[:0]
	for _, r := range n.dirty {
		if len(r.users) > 1 || len(r.users) == 1 && !r.users[0].alone() {
			shared = append(shared, r)
			continue
		}
		r.dirty, r.ended = false, math.Inf(1)
		for _, s := range r.users {
			rate := s.cap
			for _, p := range s.path[:s.hops] {
				rate = min(rate, p.capacity)
			}
			n.setRate(s, rate, now)
		}
	}
	n.dirty = shared
}

// alone says whether a stream shares nothing.
func (s *stream) alone() bool {
	for _, r := range s.path[:s.hops] {
		if len(r.users) > 1 {
			return false
		}
	}
	return true
}

// firstChange is a level up to which filling goes as it went before, so that
// streams of lower rates keep them. The two part where a dirty resource
// saturates, in either: one that lost a stream did so no earlier than at that
// stream's rate; one that gained some will when those, which nothing else is
// known to hold back, and the others, up to the rates they had, fill it.
func (n *Fair) firstChange() float64 {
	first := math.Inf(1)
	for _, r := range n.dirty {
		first = min(first, r.ended)
		begun := false
		for _, s := range r.users {
			if begun = s.rate == 0; begun {
				break
			}
		}
		if !begun {
			continue
		}
		level := 0.0
		for grown := true; grown; {
			room, above := r.capacity, 0
			for _, s := range r.users {
				if s.rate > 0 && s.rate <= level {
					room -= s.rate
				} else {
					above++
				}
			}
			next := room / float64(above) // new streams are always above
			grown = next > level*(1+1e-12)
			level = max(level, next)
		}
		first = min(first, level)
	}
	return first * (1 - 1e-9) // for rounding
}

// setRate lets a stream go on at another rate.
func (n *Fair) setRate(s *stream, rate float64, now time.Duration) {
	if rate == s.rate {
		return
	}
	if !(rate > 0) {
		panic(fmt.Sprintf("sim: a stream with a rate of %v", rate))
	}
	s.left = max(s.left-float64(s.rate*(now-s.since).Seconds()), 0)
	s.since, s.rate = now, rate
	s.finish = now + seconds(s.left/rate)
	n.active.moved(s)
}

// shares is a heap of resources by room per stream.
type shares []*resource

func (q shares) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *shares) pop() {
	o := *q
	last := len(o) - 1
	o[0] = o[last]
	*q = o[:last]
	q.down(0)
}

// down lets the resource at i sink to where it belongs.
func (q shares) down(i int) {
	if i >= len(q) {
		return
	}
	r := q[i]
	for {
		j := 2*i + 1
		if j >= len(q) {
			break
		}
		if k := j + 1; k < len(q) && q[k].level < q[j].level {
			j = k
		}
		if !(q[j].level < r.level) {
			break
		}
		q[i], i = q[j], j
	}
	q[i] = r
}
