package collective

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/gradlab/gradlab/comm"
)

// Format writes elements to the wire and reads them back. The package knows no
// arithmetic of its own: the engine hands it float32, bfloat16 or float16.
type Format interface {
	Width() int // bytes an element, a divisor of 8
	// Put writes x to dst, len(dst) = Width·len(x), and rounds x to what was
	// written: a rank that passes a value on keeps the value it passed on.
	// Formats of 4 bytes and more do not round.
	Put(dst []byte, x []float32)
	// Add adds what Put wrote to x; Set replaces x by it. src may begin at any
	// address.
	Add(x []float32, src []byte)
	Set(x []float32, src []byte)
}

// InPlace is a Format whose wire form may be what lies in memory: such parts are
// sent without a copy.
type InPlace interface {
	Format
	// Bytes aliases x in wire form, if that is how it lies in memory.
	Bytes(x []float32) (b []byte, ok bool)
}

// Group is the set of ranks that take part, in order; Me is the index of this
// one. Node is how many successive ones share a node, 0 if nobody knows.
type Group struct {
	Ranks []int
	Me    int
	Node  int
}

// at is where the group's plan for a vector of so many bytes is asked for.
func (g Group) at(bytes int) At {
	return At{Rank: g.Me, Size: len(g.Ranks), Bytes: bytes, Node: g.Node}
}

// pieceBytes is how much of a vector one frame carries: enough to outweigh what
// a frame costs, little enough that a segment is still in the cache when it is
// passed on.
const pieceBytes = 256 << 10

// lendBytes is the size from which sending a segment from where it lies is worth
// the waiting for it.
const lendBytes = 16 << 10

// AllReduce sums x over the group, in place, with the plan of t. All ranks end
// with the same bits. Frames carry exactly Width bytes an element.
//
// Header is copied to every frame: Tag, Step, Run and so on. Its Flags are OR-ed
// along the way: the result holds every flag that any rank set before it began,
// on every rank. After an error x holds nothing of use, and may be read until the
// links are gone.
func AllReduce(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, x []float32, f Format) (flags comm.Flags, err error) {
	return allReduce(ctx, h, g, t, hd, x, f, pieceBytes)
}

func allReduce(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, x []float32, f Format, limit int) (flags comm.Flags, err error) {
	if len(g.Ranks) < 2 {
		return hd.Flags, nil
	}
	if flags, done, err := native(ctx, h, g, t, hd, x, f); done {
		return flags, err
	}
	return execute(ctx, h, g, programs.get(t, g.at(len(x)*f.Width()), len(x), limit/f.Width()), hd, x, f)
}

// execute runs a program over x.
func execute(ctx context.Context, h comm.Endpoint, g Group, p *program, hd comm.Header, x []float32, f Format) (flags comm.Flags, err error) {
	r := runners.Get().(*runner)
	r.net, r.group, r.hd, r.x, r.format, r.program = comm.Streaming(h), g, hd, x, f, p
	r.hd.Kind = comm.Gradient
	r.reach()
	if err := r.run(ctx); err != nil {
		return r.hd.Flags, fmt.Errorf("all-reduce, step %d: %w", hd.Step, err) // r is left to late frames
	}
	flags = r.hd.Flags
	r.net, r.group, r.x, r.format, r.program = nil, Group{}, nil, nil, nil
	runners.Put(r)
	return flags, nil
}

// runner is an all-reduce under way.
type runner struct {
	net     comm.Streamer
	group   Group
	hd      comm.Header
	x       []float32
	format  Format
	program *program

	out   filler
	ahead int         // of sends to receives
	posts []post      // in a ring
	loans []comm.Loan // in a ring, too; those of sends before back have ended
	back  int
}

// reach sets how far sends run ahead, by the distance of those who take part.
func (r *runner) reach() {
	r.ahead = near
	if d, ok := r.net.(comm.Remote); ok {
		for _, rank := range r.group.Ranks {
			if d.RoundTrip(rank) >= long {
				r.ahead = far
			}
		}
	}
	if n := windows * r.ahead; len(r.posts) < n {
		r.posts, r.loans = make([]post, n), make([]comm.Loan, loans*r.ahead)
	}
}

var runners = sync.Pool{New: func() any { return new(runner) }}

// run makes the sends as soon as they may be made and the receives in order,
// posted as early as they may be.
func (r *runner) run(ctx context.Context) (err error) {
	sends, recvs := r.program.sends, r.program.recvs
	sent, posted, got := 0, 0, 0
	r.back = 0
	window := len(r.posts)
	defer func() {
		if err != nil {
			for ; got < posted; got++ {
				r.net.Cancel(&r.posts[got%window].receipt)
			}
		}
	}()
	for sent < len(sends) || got < len(recvs) {
		for ; r.program.may(sent, got, r.ahead); sent++ {
			if err := r.send(ctx, &sends[sent], sent); err != nil {
				return err
			}
		}
		for ; posted < len(recvs) && posted < got+window; posted++ {
			p := &recvs[posted]
			if p.got > got || p.gone > sent {
				break
			}
			if err := r.settle(ctx, p.gone); err != nil {
				return err
			}
			r.post(p, posted)
		}
		if got < posted {
			h, err := r.net.Await(ctx, &r.posts[got%window].receipt)
			if err != nil {
				return fmt.Errorf("receive %d of %d: %w", got+1, len(recvs), err)
			}
			r.hd.Flags |= h.Flags
			got++
		}
	}
	if r.format.Width() < 4 {
		r.round()
	}
	return r.settle(ctx, len(sends))
}

func (r *runner) send(ctx context.Context, p *segment, i int) error {
	r.hd.Seq = uint64(i)
	to, size, x := r.group.Ranks[p.peer], (p.hi-p.lo)*r.format.Width(), r.x[p.lo:p.hi]
	if err := r.settle(ctx, i+1-len(r.loans)); err != nil {
		return err
	}
	if f, ok := r.format.(InPlace); ok && !p.soon && size >= lendBytes {
		if b, ok := f.Bytes(x); ok {
			return r.net.SendLent(ctx, to, r.hd, b, &r.loans[i%len(r.loans)])
		}
	}
	r.out = filler{r.format, x}
	return r.net.SendFrom(ctx, to, r.hd, size, &r.out)
}

// settle waits until what the first n sends carry may be written to.
func (r *runner) settle(ctx context.Context, n int) error {
	for ; r.back < n; r.back++ {
		if err := r.loans[r.back%len(r.loans)].Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) post(p *segment, i int) {
	s := &r.posts[i%len(r.posts)]
	s.hd, s.format, s.x, s.add, s.cut = r.hd, r.format, r.x[p.lo:p.hi], p.add, 0
	s.placed = 0
	r.net.Post(&s.receipt, r.group.Ranks[p.peer], r.hd.Tag, s)
}

// round rounds the sums that this rank did not send on to what the ranks that
// were sent them hold.
func (r *runner) round() {
	for _, s := range r.program.settle {
		x := r.x[s[0]:s[1]]
		b := comm.NewBuffer(len(x) * r.format.Width())
		r.format.Put(b.B, x)
		b.Release()
	}
}

// filler writes a range of the vector.
type filler struct {
	format Format
	x      []float32
}

// Fill implements comm.Filler.
func (s *filler) Fill(dst []byte) {
	n := len(dst) / s.format.Width()
	s.format.Put(dst, s.x[:n])
	s.x = s.x[n:]
}

// post is a receive that adds to, or replaces, a range of the vector straight
// from where its bytes arrived.
type post struct {
	receipt comm.Receipt
	hd      comm.Header
	format  Format
	x       []float32
	add     bool
	rest    [8]byte // of an element that was cut
	cut     int     // how much of it is there
	placed  int     // likewise, of x's first that lies where it is to
}

// Begin implements comm.Sink.
func (s *post) Begin(h *comm.Header, size int) error {
	return expect(h, &s.hd, size, len(s.x)*s.format.Width())
}

// Place implements comm.Placer: values that replace others may come as they lie in memory.
func (s *post) Place() []byte {
	if s.add || s.cut > 0 {
		return nil
	}
	f, ok := s.format.(InPlace)
	if !ok {
		return nil
	}
	if b, ok := f.Bytes(s.x); ok {
		return b[s.placed:]
	}
	return nil
}

// Placed implements comm.Placer.
func (s *post) Placed(n int) {
	n += s.placed
	s.x, s.placed = s.x[n/s.format.Width():], n%s.format.Width()
}

// Take implements comm.Sink.
func (s *post) Take(b []byte) {
	w := s.format.Width()
	if s.placed > 0 { // the rest of an element follows its beginning
		n := copy(s.Place(), b[:min(len(b), w-s.placed)])
		s.Placed(n)
		b = b[n:]
	}
	if s.cut > 0 {
		n := copy(s.rest[s.cut:w], b)
		s.cut, b = s.cut+n, b[n:]
		if s.cut < w {
			return
		}
		s.apply(s.rest[:w])
		s.cut = 0
	}
	whole := len(b) / w * w
	s.apply(b[:whole])
	s.cut = copy(s.rest[:], b[whole:])
}

func (s *post) apply(b []byte) {
	n := len(b) / s.format.Width()
	if s.add {
		s.format.Add(s.x[:n], b)
	} else {
		s.format.Set(s.x[:n], b)
	}
	s.x = s.x[n:]
}

// expect checks that a frame belongs to this step and has the length agreed; any
// length will do if want is below 0.
func expect(in, hd *comm.Header, size, want int) error {
	if in.Step != hd.Step || in.Run != hd.Run {
		return fmt.Errorf("rank %d is at step %d of run %x, this rank at step %d of run %x",
			in.From, in.Step, in.Run, hd.Step, hd.Run)
	}
	if want >= 0 && size != want {
		return fmt.Errorf("rank %d sent %d bytes, want %d", in.From, size, want)
	}
	return nil
}

// programs remembers programs: for small vectors, making one would take longer
// than running it. One process may be all ranks of a virtual cluster, and exchange
// vectors of many lengths in a step: 256 ranks with the tensors of ResNet-50 have
// 7,000 programs of 10 segments, with its buckets of 4 MB in rings 6,000 of 300. The
// segments of all programs take 50 MB at most.
var programs = cache{by: map[question]*program{}, most: 1 << 21}

type cache struct {
	most     int // segments
	mu       sync.RWMutex
	by       map[question]*program
	segments int
}

type question struct {
	topology Topology
	at       At
	n, limit int
}

func (m *cache) get(t Topology, at At, n, limit int) *program {
	if !reflect.TypeOf(t).Comparable() {
		return cut(t.Plan(at), n, limit)
	}
	q := question{t, at, n, limit}
	m.mu.RLock()
	p := m.by[q]
	m.mu.RUnlock()
	if p != nil {
		return p
	}
	p = cut(t.Plan(at), n, limit)
	if n := len(p.sends) + len(p.recvs); n <= m.most/1024 {
		m.mu.Lock()
		defer m.mu.Unlock()
		if known := m.by[q]; known != nil { // another goroutine was faster
			return known
		}
		if m.segments += n; m.segments > m.most {
			clear(m.by)
			m.segments = n
		}
		m.by[q] = p
	}
	return p
}
