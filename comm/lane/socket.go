package lane

import (
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/tcp"
)

// Conn is what a socket's road needs of a tcp.Pipe, or of a tcp.Bundle of them.
type Conn interface {
	comm.Source
	Push(v *[][]byte) (done bool, err error)
	Await() error
	Look() ([]byte, error)
	Consume(n int)
	Wait()
	Again(looks int) bool
	Leave()
	FinishBy(at time.Time)
	Crossed() (sent, read uint64)
	Close()
	Release()
}

var _, _ Conn = (*tcp.Pipe)(nil), (*tcp.Bundle)(nil)

// socket is a lane's road over TCP connections of its own, in plain text or under TLS.
type socket struct{ Conn }

// Socket is a road over a connection.
func Socket(c Conn) Road { return socket{c} }

// lastWords is how long what the other process wrote before its end may take to come.
const lastWords = 250 * time.Millisecond

// Finish implements Road.
func (s socket) Finish() { s.FinishBy(time.Now().Add(lastWords)) }

// try implements Road.
func (s socket) try(rec *record) (begun, done bool) {
	done, _ = s.Push(&rec.parts) // an error comes again
	return done || rec.left() < rec.size, done
}

// write implements Road.
func (s socket) write(rec *record) error {
	for {
		done, err := s.Push(&rec.parts)
		if done || err != nil {
			return err
		}
		if err := s.Await(); err != nil {
			return err
		}
	}
}

// taken implements Road: what the kernel has taken, which holds no more than its buffer.
func (s socket) taken() uint64 {
	sent, _ := s.Crossed()
	return sent
}

// count implements Road: a socket's bytes are counted where they cross it.
func (s socket) count(sent, read int) {}

// carried implements Road.
func (s socket) carried() (sent, read comm.Carried) {
	sent.Wire, read.Wire = s.Crossed()
	return sent, read
}

// alone implements Road.
func (s socket) alone() bool { return true }

// close implements Road.
func (s socket) close() { s.Close() }

// end implements Road.
func (s socket) end() { s.Release() }
