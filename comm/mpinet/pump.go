//go:build mpi

package mpinet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/spin"
)

// pump moves messages between this process and the others. Its loop runs on MPI's
// thread; put and fold may be called from anywhere.
type pump struct {
	self int
	size int // of processes
	most int // bytes that may wait to be sent
	calls
	take func(*message) // hears what comes in, in the order of each process

	head    []byte       // where the next one arrives
	in      [][]*message // of each process, not given on yet
	spare   [][]byte     // heads that are not in use
	sending int          // messages whose memory MPI still reads
	folding int          // all-reduces that have not ended

	mu      sync.Mutex
	out     []any         // *message or *folding, not started
	queued  int           // bytes of bodies, from put until MPI has sent them
	room    chan struct{} // closed when queued has fallen; nil: nobody waits for that
	over    bool          // nothing is taken any more
	sent    comm.Carried
	failure error
	ended   chan struct{} // closed when over
}

// folding is an all-reduce.
type folding struct {
	x     []byte
	by    comm.Fold
	words [3]uint64 // flags, an address of what is folded, and its complement
	done  chan error
	left  int
	mem   []byte // words, where MPI works
	unpin func()
}

var (
	errEnded     = errors.New("the net has ended")
	errQueueFull = errors.New("the queue is full")
)

func newPump(w World, most int, take func(*message)) *pump {
	return &pump{self: w.Rank, size: w.Size, most: most, take: take, in: make([][]*message, w.Size),
		ended: make(chan struct{})}
}

// put sends a message once there is room for it, at most a time from now.
func (p *pump) put(ctx context.Context, m *message, wait time.Duration) error {
	n := len(m.body())
	var late <-chan time.Time
	for {
		p.mu.Lock()
		if p.over {
			p.mu.Unlock()
			return p.failure
		}
		if p.queued == 0 || p.queued+n <= p.most {
			break
		}
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		p.mu.Unlock()
		if late == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return errQueueFull
		}
	}
	p.queued += n
	p.sent.Wire += uint64(headBody + n)
	if m.kind == msgFrame {
		p.sent.Body[m.frame.Header.Kind] += uint64(n)
	}
	p.out = append(p.out, m)
	p.mu.Unlock()
	rouse()
	return nil
}

// tell sends a message of our own, however much is queued.
func (p *pump) tell(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.queued += len(m.text)
		p.sent.Wire += uint64(headBody + len(m.text))
		p.out = append(p.out, m)
		rouse()
	}
}

// fold starts an all-reduce. It ends on f.done.
func (p *pump) fold(f *folding) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p.failure
	}
	p.out = append(p.out, f)
	rouse()
	return nil
}

// idle says whether everything that was put has been sent.
func (p *pump) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.out) == 0 && p.sending == 0
}

// close takes nothing more, and gives C's memory back where no call uses it.
func (p *pump) close() {
	_ = p.fail(errEnded)
	if len(p.requests) > 0 {
		return
	}
	for _, head := range append(p.spare, p.head) {
		if head != nil {
			free(head)
		}
	}
	p.spare, p.head = nil, nil
}

// awake is how long MPI's thread goes on looking after anything has happened. Other
// goroutines and processes have the core meanwhile if they want it, and who has taken it
// for long is not given it again for a while.
const awake = time.Millisecond

// loop moves messages until done says so, which it is asked when nothing happens, or an
// MPI call fails.
func (p *pump) loop(done func() bool) error {
	last, nap, around := time.Now(), RestMost/8, spin.New(yield)
	for {
		began, err := p.begin()
		if err != nil {
			return p.fail(err)
		}
		ended, err := p.test()
		if err == nil {
			err = p.broke() // by what was done with the calls that ended, or from outside
		}
		if err != nil {
			return p.fail(err)
		}
		if began+ended > 0 {
			last, nap = time.Now(), RestMost/8
			continue
		}
		if done() {
			return nil
		}
		if time.Since(last) < awake && around.Again(0) {
			runtime.Gosched()
			continue
		}
		rest(int(nap / time.Microsecond))
		nap = min(2*nap, RestMost)
	}
}

// fail ends what waits for this pump.
func (p *pump) fail(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over, p.failure = true, err
		p.letIn()
		close(p.ended)
	}
	return p.failure
}

func (p *pump) broke() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// letIn has those who wait for room look again. Callers hold mu.
func (p *pump) letIn() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

// begin starts what was put, and says how much.
func (p *pump) begin() (int, error) {
	p.mu.Lock()
	out := p.out
	p.out = nil
	p.mu.Unlock()
	for _, o := range out {
		var err error
		switch o := o.(type) {
		case *message:
			err = p.start(o)
		case *folding:
			err = p.startFold(o)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(out), nil
}

// start sends a message.
func (p *pump) start(m *message) error {
	var head []byte
	if n := len(p.spare); n > 0 {
		head, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		head = memory(headMost)
	}
	body := m.body()
	wire, inline := m.appendHead(head[:0], p.self)
	left := 1
	unpin := func() {}
	sent := func() {
		if left--; left > 0 {
			return
		}
		unpin()
		p.spare = append(p.spare, head)
		p.sending--
		p.forget(len(body))
		m.frame.Release()
	}
	p.sending++
	at := pinnedC(wire)
	if err := p.send(at, len(wire), m.process, tagHead, sent); err != nil || inline {
		return err
	}
	at, unpin = pinned(body)
	for lo := 0; lo < len(body); lo += pieceMost {
		left++
		n := min(pieceMost, len(body)-lo)
		if err := p.send(offset(at, lo), n, m.process, tagBody, sent); err != nil {
			return err
		}
	}
	return nil
}

// forget makes room for others.
func (p *pump) forget(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued -= n
	p.letIn()
}

// listen waits for the next head.
func (p *pump) listen() error {
	if p.head == nil {
		p.head = memory(headMost)
	}
	at := pinnedC(p.head)
	return p.recv(at, headMost, -1, tagHead, p.arrived)
}

// arrived takes a head, and asks for its body if that is not in it.
func (p *pump) arrived() {
	m, inline, err := parseHead(p.head)
	if err == nil && (m.process < 0 || m.process >= p.size) {
		err = fmt.Errorf("mpinet: a message of process %d, there are %d", m.process, p.size)
	}
	if err == nil {
		p.in[m.process] = append(p.in[m.process], m)
		if body := m.body(); !inline {
			err = p.fetch(m, body)
		}
	}
	if err == nil {
		err = p.listen()
	}
	if err != nil {
		_ = p.fail(err) // the loop ends with it
		return
	}
	p.deliver(m.process)
}

// fetch receives a body.
func (p *pump) fetch(m *message, body []byte) error {
	at, unpin := pinned(body)
	come := func() {
		if m.missing--; m.missing == 0 {
			unpin()
			p.deliver(m.process)
		}
	}
	for lo := 0; lo < len(body); lo += pieceMost {
		m.missing++
		if err := p.recv(offset(at, lo), min(pieceMost, len(body)-lo), m.process, tagBody, come); err != nil {
			return err
		}
	}
	return nil
}

// deliver gives on what is whole, in the order sent.
func (p *pump) deliver(process int) {
	in := p.in[process]
	n := 0
	for n < len(in) && in[n].missing == 0 {
		p.take(in[n])
		n++
	}
	p.in[process] = append(in[:0], in[n:]...)
}

// startFold starts an all-reduce, and one of its words beside it.
func (p *pump) startFold(f *folding) error {
	f.mem = memory(8 * len(f.words))
	words := words64(f.mem)
	copy(words, f.words[:])
	at, unpin := pinned(f.x)
	f.unpin, f.left = unpin, 2
	p.folding++
	end := func() {
		if f.left--; f.left > 0 {
			return
		}
		f.unpin()
		p.folding--
		copy(f.words[:], words)
		free(f.mem)
		f.done <- nil
	}
	where := pinnedC(f.mem)
	if err := p.calls.fold(where, len(f.words), comm.FoldNone, end); err != nil {
		return err
	}
	return p.calls.fold(at, len(f.x)/f.by.Width(), f.by, end)
}
