// Package tcp moves bytes between two processes over one TCP connection that is read and
// written by whoever has something to do there, without a wait: what cannot leave, or is
// not there yet, is a matter for a goroutine that may sleep. Bytes are written from where
// they lie, and read to where they are to lie. TLS may be laid over it.
//
// A pipe at rest costs two small structures: buffers are borrowed while bytes are in them.
package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gradlab/gradlab/internal/spin"
)

// ErrLost is the end of a connection in the middle: it was closed here, reset, or is
// refused by the network. What caused it is wrapped beside it.
var ErrLost = errors.New("connection lost")

// Bytes of a pipe's buffers.
const (
	bufferSize = 256 << 10 // of what was read: a second cache holds it
	sealAtOnce = 256 << 10 // how much TLS encrypts before it is written
)

// near is the round trip below which a network is a machine or a cluster.
const near = time.Millisecond

// nearWindow is how much a near peer may send before it is read: more would lie in no
// cache when it is. Of a far one the kernel finds it.
const nearWindow = 1 << 20

// Pipe is one end of a connection. Look, Fill, Consume and Again are for one goroutine at a
// time, and another one may be in Wait; Push and Await are for one goroutine at a time.
type Pipe struct {
	sock   net.Conn
	closer io.Closer
	raw    syscall.RawConn
	over   net.Conn // TLS, which reads from and writes to the pipe; nil: plain text
	meter  func(sent, read int)
	sent   atomic.Uint64
	read   atomic.Uint64

	// Of the reading end.
	plain    buffer      // what can be looked at
	sealed   buffer      // what TLS has not read
	idle     atomic.Bool // nothing is there but what the kernel has; false before it is asked
	full     bool        // TLS may have more
	finished atomic.Bool
	asleep   atomic.Bool // somebody is in Wait
	turn     sync.Mutex  // guards the deadline of reads
	final    time.Time   // the one that FinishBy has set
	woken    bool        // an earlier one stands, which lets Wait return
	spin     spin.Spin
	in       call
	wait     wait

	// Of the writing end.
	out    call
	await  wait
	mu     sync.Mutex // guards cipher: TLS may have to answer what it reads
	cipher []byte     // what TLS has encrypted, and is not written
	gone   int        // of it that is
	lent   *[]byte    // what cipher goes back as

	closed atomic.Bool
}

// call is a system call without a wait, and what it needs.
type call struct {
	do  func(fd uintptr)
	v   [][]byte
	n   int
	err error
}

// wait is a wait for a socket to be ready, and what it needs.
type wait struct {
	do     func(fd uintptr) bool
	looked bool
}

// buffer is bytes that were read and not used.
type buffer struct {
	b        *[bufferSize]byte // nil: none
	from, to int
}

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (b *buffer) bytes() []byte {
	if b.b == nil {
		return nil
	}
	return b.b[b.from:b.to]
}

// borrow makes an empty buffer ready to be read into.
func (b *buffer) borrow() []byte {
	if b.b == nil {
		b.b = buffers.Get().(*[bufferSize]byte)
	}
	b.from, b.to = 0, 0
	return b.b[:]
}

// use drops the first n bytes, and the buffer with the last one.
func (b *buffer) use(n int) {
	b.from += n
	if b.b != nil && b.from >= b.to {
		buffers.Put(b.b)
		b.b, b.from, b.to = nil, 0, 0
	}
}

// first is ready, asked once: who was woken after that need not ask.
func (w *wait) first(ready func(fd uintptr) bool) func(fd uintptr) bool {
	return func(fd uintptr) bool {
		was := w.looked
		w.looked = true
		return was || ready(fd)
	}
}

// New makes a pipe of a connected socket, on which nothing else reads or writes from now
// on. closer closes it, once. meter is told of bytes that crossed the socket, TLS's
// included. crowded says that processes outnumber cores here: waits go to sleep early.
func New(sock net.Conn, closer io.Closer, crowded bool, meter func(sent, read int)) (*Pipe, error) {
	s, ok := sock.(syscall.Conn)
	if !ok || !Supported {
		return nil, fmt.Errorf("%T is no socket that this system reads without waiting", sock)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := sock.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if s, ok := sock.(interface{ SetReadBuffer(int) error }); ok && RoundTrip(sock) < near {
		_ = s.SetReadBuffer(nearWindow)
	}
	p := &Pipe{sock: sock, closer: closer, raw: raw, meter: meter, spin: spin.New(yield)}
	if crowded {
		p.spin.Patience = spin.Crowded
	}
	p.in.do = func(fd uintptr) { p.in.n, p.in.err = readv(fd, p.in.v) }
	p.wait.do = p.wait.first(func(fd uintptr) bool { return readable(fd) || !p.idle.Load() })
	p.await.do = p.await.first(writable)
	p.out.do = func(fd uintptr) { p.out.n, p.out.err = writev(fd, p.out.v) }
	return p, nil
}

// Under has TLS lie over the pipe: over reads from the pipe's Read and writes to its Write,
// and what Push is given goes through it.
func (p *Pipe) Under(over net.Conn) { p.over = over }

// try makes a call without a wait. n is 0 and err nil if there is nothing to be had now.
func (p *Pipe) try(c *call) (n int, err error) {
	err = p.raw.Control(c.do)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrLost, err)
	case c.err == nil:
		return c.n, nil
	case again(c.err):
		return 0, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrLost, c.err)
}

// count counts bytes that crossed the socket.
func (p *Pipe) count(sent, read int) {
	p.sent.Add(uint64(sent))
	p.read.Add(uint64(read))
	p.meter(sent, read)
}

// Crossed is how many bytes have crossed the socket since the pipe was made.
func (p *Pipe) Crossed() (sent, read uint64) { return p.sent.Load(), p.read.Load() }

// Push writes what can be written of v without waiting, and takes what the caller need not
// keep out of it. done says that all has left; if not, Await and Push the rest.
func (p *Pipe) Push(v *[][]byte) (done bool, err error) {
	if p.over != nil {
		return p.seal(v)
	}
	for {
		for len(*v) > 0 && len((*v)[0]) == 0 {
			*v = (*v)[1:]
		}
		if len(*v) == 0 {
			return true, nil
		}
		p.out.v = *v
		n, err := p.try(&p.out)
		p.out.v = nil
		if err != nil || n == 0 {
			return false, err
		}
		p.count(n, 0)
		advance(v, n)
	}
}

// advance drops the first n bytes.
func advance(v *[][]byte, n int) {
	for n > 0 {
		first := &(*v)[0]
		k := min(n, len(*first))
		*first = (*first)[k:]
		n -= k
		if len(*first) == 0 {
			*v = (*v)[1:]
		}
	}
}

// seal is Push under TLS: no more is encrypted than can be written soon.
func (p *Pipe) seal(v *[][]byte) (done bool, err error) {
	for {
		if done, err := p.flush(); !done || err != nil {
			return false, err
		}
		for len(*v) > 0 && len((*v)[0]) == 0 {
			*v = (*v)[1:]
		}
		if len(*v) == 0 {
			return true, nil
		}
		for left := sealAtOnce; left > 0 && len(*v) > 0; {
			k := min(left, len((*v)[0]))
			if _, err := p.over.Write((*v)[0][:k]); err != nil {
				return false, fmt.Errorf("%w: %w", ErrLost, err)
			}
			left -= k
			advance(v, k)
			for len(*v) > 0 && len((*v)[0]) == 0 {
				*v = (*v)[1:]
			}
		}
	}
}

// flush writes what TLS has encrypted.
func (p *Pipe) flush() (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.gone < len(p.cipher) {
		p.out.v = append(p.out.v[:0], p.cipher[p.gone:])
		n, err := p.try(&p.out)
		if err != nil || n == 0 {
			return false, err
		}
		p.count(n, 0)
		p.gone += n
	}
	if p.cipher != nil {
		*p.lent = p.cipher[:0]
		ciphers.Put(p.lent)
		p.lent, p.cipher, p.gone = nil, nil, 0
	}
	return true, nil
}

var ciphers = sync.Pool{New: func() any { b := make([]byte, 0, sealAtOnce+sealAtOnce/256); return &b }}

// Write takes what TLS has encrypted. It is for TLS alone.
func (p *Pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cipher == nil {
		p.lent = ciphers.Get().(*[]byte)
		p.cipher = *p.lent
	}
	p.cipher = append(p.cipher, b...)
	return len(b), nil
}

// Await waits until more may be written, or the pipe is lost.
func (p *Pipe) Await() error {
	p.await.looked = false
	if err := p.raw.Write(p.await.do); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// Look returns bytes that have come, none if there are none, without waiting. They are the
// caller's until Consume. At the end, that is when all was read and the other side has gone
// or FinishBy's time is over, it returns io.EOF, and when the connection broke ErrLost.
func (p *Pipe) Look() ([]byte, error) {
	if b := p.plain.bytes(); len(b) > 0 {
		return b, nil
	}
	over := p.finished.Load()
	n, err := p.get(p.plain.borrow())
	p.plain.to = n
	if n == 0 {
		p.plain.use(0)
		p.idle.Store(err == nil && len(p.sealed.bytes()) == 0)
		if err == nil && over {
			err = io.EOF
		}
		return nil, err
	}
	return p.plain.bytes(), nil
}

// Consume drops the first n bytes of what Look returned.
func (p *Pipe) Consume(n int) { p.plain.use(n) }

// Fill reads bytes that have come into dst, without waiting; n is 0 if there are none.
func (p *Pipe) Fill(dst []byte) (n int, err error) {
	if b := p.plain.bytes(); len(b) > 0 {
		n = copy(dst, b)
		p.plain.use(n)
		return n, nil
	}
	over := p.finished.Load()
	if p.over == nil {
		n, err = p.scatter(dst)
	} else {
		n, err = p.get(dst)
	}
	if n == 0 {
		p.idle.Store(err == nil && len(p.sealed.bytes()) == 0)
		if err == nil && over {
			err = io.EOF
		}
	}
	return n, err
}

// get reads into b what is there.
func (p *Pipe) get(b []byte) (n int, err error) {
	p.idle.Store(false)
	if p.over == nil {
		return p.receive(b, nil)
	}
	p.full = true
	for n < len(b) { // TLS gives no more than a record at a time
		k, err := p.over.Read(b[n:])
		n += k
		if err != nil {
			p.full = false
			if n > 0 || errors.Is(err, errNow) {
				return n, nil
			}
			return 0, err
		}
	}
	return n, nil
}

// ahead is how much of what comes behind a body is read with it: the beginning of the next
// frame, and little of its body, which is to be read to where it is to lie.
const ahead = 4 << 10

// scatter reads into b what is there, and the beginning of what comes behind it into the
// buffer, which is empty.
func (p *Pipe) scatter(b []byte) (n int, err error) {
	p.idle.Store(false)
	n, err = p.receive(b, p.plain.borrow()[:ahead])
	p.plain.to = max(0, n-len(b))
	p.plain.use(0)
	return min(n, len(b)), err
}

// receive is what a read of the socket finds, into b and behind it into more.
func (p *Pipe) receive(b, more []byte) (n int, err error) {
	p.in.v = append(p.in.v[:0], b, more)
	n, err = p.try(&p.in)
	clear(p.in.v)
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		p.count(0, n)
	case p.in.err == nil:
		return 0, io.EOF
	}
	return n, nil
}

// Read gives TLS what was received. It is for TLS alone, which tries again after an error
// that is temporary.
func (p *Pipe) Read(b []byte) (int, error) {
	if len(p.sealed.bytes()) == 0 {
		n, err := p.receive(p.sealed.borrow(), nil)
		p.sealed.to = n
		if n == 0 {
			p.sealed.use(0)
			if err == nil {
				err = errNow
			}
			return 0, err
		}
	}
	n := copy(b, p.sealed.bytes())
	p.sealed.use(n)
	return n, nil
}

// errNow says that there is nothing now.
var errNow net.Error = notNow{}

type notNow struct{}

func (notNow) Error() string   { return "nothing has come" }
func (notNow) Timeout() bool   { return true }
func (notNow) Temporary() bool { return true }

// Wait waits until there is something to look at: bytes, or the end. It may also return for
// no reason.
func (p *Pipe) Wait() {
	if !p.idle.Load() {
		return
	}
	p.wait.looked = false
	p.asleep.Store(true)
	err := p.raw.Read(p.wait.do)
	p.asleep.Store(false)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.turn.Lock()
		defer p.turn.Unlock()
		if p.woken {
			p.woken = false
			_ = p.sock.SetReadDeadline(p.final)
		} else {
			p.finished.Store(true)
		}
	default:
		p.idle.Store(false) // Look tells
	}
}

// Leave is told by who looked and goes. A kernel says that bytes have come as long as they
// are there: of those that were taken from it and are left here, Wait would not hear.
func (p *Pipe) Leave() {
	if p.full || len(p.plain.bytes())+len(p.sealed.bytes()) > 0 {
		p.wake()
	}
}

// longAgo is an instant that has passed, and not the zero one, which is none.
var longAgo = time.Time{}.Add(1)

// wake lets a Wait return.
func (p *Pipe) wake() {
	if p.asleep.Load() {
		p.turn.Lock()
		defer p.turn.Unlock()
		p.woken = true
		_ = p.sock.SetReadDeadline(longAgo)
	}
}

// Again says whether who found nothing, in that many looks, should look again rather than
// leave it to another goroutine's Wait. It is for who may Look.
func (p *Pipe) Again(looks int) bool { return p.spin.Again(looks) }

// FinishBy lets Wait end at an instant: what the other side wrote before its end may be on
// its way until then.
func (p *Pipe) FinishBy(at time.Time) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.final = at; !p.woken { // else Wait sets it
		_ = p.sock.SetReadDeadline(at)
	}
}

// Close ends all waits, here and at the other end. It may be called more than once and by
// anybody.
func (p *Pipe) Close() {
	if !p.closed.Swap(true) {
		_ = p.closer.Close()
	}
}

// Release gives back what a closed pipe holds; nobody may use it any more.
func (p *Pipe) Release() {
	for _, b := range []*buffer{&p.plain, &p.sealed} {
		b.use(b.to - b.from)
	}
	p.mu.Lock()
	p.cipher = nil
	p.mu.Unlock()
}
