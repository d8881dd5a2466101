package lane

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// memory is a lane's road through memory that both processes share.
type memory struct {
	*shm.Reader
	shm   *shm.Link
	meter *comm.Traffic
	sent  atomic.Uint64 // bytes of records
	read  atomic.Uint64

	mu   sync.Mutex // guards shm against its end
	over bool
}

const (
	MemoryBytes = 1 << 20   // of memory, in a direction
	WholeLimit  = 512 << 10 // a frame up to this size is written by who sends it
)

var zeros [8]byte

// Memory is a road through memory, whose bytes meter counts.
func Memory(s *shm.Link, meter *comm.Traffic) Road {
	return &memory{Reader: &s.In, shm: s, meter: meter}
}

// try implements Road: a record is written whole or not at all.
func (m *memory) try(rec *record) (begun, done bool) {
	if len(rec.frame.Body) > WholeLimit {
		return false, false
	}
	if room, err := m.shm.Out.Room(); err != nil || room < rec.size {
		return false, false
	}
	for _, part := range rec.parts {
		m.put(part)
	}
	m.shm.Out.Publish()
	return true, true
}

// write implements Road.
func (m *memory) write(rec *record) error {
	for _, part := range rec.parts {
		for len(part) > 0 {
			k := min(len(part), slice)
			if err := m.shm.Out.Wait(context.Background(), k); err != nil {
				return err
			}
			m.put(part[:k])
			part = part[k:]
		}
	}
	m.shm.Out.Publish()
	return nil
}

// put copies b into room that is there.
func (m *memory) put(b []byte) {
	for len(b) > 0 {
		k := copy(m.shm.Out.Next(min(len(b), slice)), b)
		m.fill(k)
		b = b[k:]
	}
}

// fill notes that the next k bytes are written. A record is shown by slices, and its end by
// who writes it: a small one, head and all, at once.
func (m *memory) fill(k int) {
	m.shm.Out.Wrote(k)
	if m.shm.Out.Hidden() >= slice {
		m.shm.Out.Publish()
	}
}

// SendFrom writes a frame whose body comes from src. It waits until the other process has
// made room, no longer than the net's deadline; t counts that.
func (n *Lane) SendFrom(ctx context.Context, f comm.Frame, size int, src comm.Filler, t *comm.Traffic) (ok bool, err error) {
	m, _ := n.road.(*memory)
	if m == nil || size > WholeLimit {
		return false, nil
	}
	total := frameHead + size + pad(size)
	if ok, err = m.enter(ctx, n, total, false); !ok {
		ctx, cancel := context.WithTimeoutCause(ctx, n.limits.Deadline, ErrFull)
		defer cancel()
		began := time.Now()
		ok, err = m.enter(ctx, n, total, true)
		t.Block(time.Since(began), 0)
		if !ok {
			return false, err
		}
	}
	defer n.leave()
	n.rec.setHead(&f, size)
	m.put(n.rec.head[:])
	for left := size; left > 0; {
		b := m.shm.Out.Next(min(left, slice))
		src.Fill(b)
		left -= len(b)
		m.fill(len(b))
	}
	m.put(zeros[:pad(size)])
	m.shm.Out.Publish()
	n.booked(f.Header.Kind, total, size)
	return true, nil
}

// enter takes the turn to write size bytes at once. ok is false if something queued comes
// first or, unless it may wait, if there is no turn or no room now.
func (m *memory) enter(ctx context.Context, n *Lane, size int, wait bool) (ok bool, err error) {
	if ok, err := n.claimTurn(ctx, wait); !ok {
		return false, err
	}
	defer func() {
		if !ok {
			n.leave()
		}
	}()
	room, err := m.shm.Out.Room()
	if err == nil && room < size && !wait {
		return false, nil
	}
	if err == nil && room < size {
		n.busy.Store(true)
		n.owner.Sleeps(1)
		err = m.shm.Out.Wait(ctx, size)
		n.owner.Sleeps(-1)
		n.busy.Store(false)
	}
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	select { // memory tells of the peer's end first, the stream says why
	case <-n.owner.Ended():
	case <-ctx.Done():
	}
	return false, ErrClosed
}

// Fills says that bodies are written to the road as they are made, by SendFrom. Otherwise
// they are read where they lie.
func (n *Lane) Fills() bool { _, ok := n.road.(*memory); return ok }

// taken implements Road: how much the peer has read.
func (m *memory) taken() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return 0
	}
	return m.shm.Out.Taken()
}

// count implements Road.
func (m *memory) count(sent, read int) {
	m.meter.Shared(sent, read)
	m.sent.Add(uint64(sent))
	m.read.Add(uint64(read))
}

// Leave implements Road: Wait sees what is left.
func (m *memory) Leave() {}

// carried implements Road.
func (m *memory) carried() (sent, read comm.Carried) {
	return comm.Carried{Shared: m.sent.Load()}, comm.Carried{Shared: m.read.Load()}
}

// alone implements Road: memory has no end that the stream does not have.
func (m *memory) alone() bool { return false }

// close implements Road.
func (m *memory) close() { m.shm.Close() }

// end implements Road.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	m.shm.Unmap()
}
