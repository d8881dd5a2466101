package grpcnet

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/tcp"
)

// conn counts what crosses a socket and when it last said something.
type conn struct {
	net.Conn
	traffic *comm.Traffic
	onClose func()
	once    sync.Once
	heard   atomic.Int64 // nanoseconds since epoch0
	wrote   atomic.Uint64
	read    atomic.Uint64
	trusted atomic.Bool
	private bool  // TLS protects it
	named   bool  // the other end's certificate says which ranks it may be
	ranks   []int // which
	closed  chan struct{}
	pipe    *tcp.Pipe // reads and writes for TLS over it; nil: the socket does
}

// epoch0 is where this process's monotonic time starts.
var epoch0 = time.Now()

func monotonic() time.Duration { return time.Since(epoch0) }

func newConn(c net.Conn, t *comm.Traffic) *conn {
	tcp.Suit(c)
	n := &conn{Conn: c, traffic: t, closed: make(chan struct{})}
	n.heard.Store(int64(monotonic()))
	return n
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if c.pipe != nil {
		return c.pipe.Read(b)
	}
	n, err := c.Conn.Read(b)
	c.count(0, n)
	return n, err
}

// count notes bytes that crossed the socket.
func (c *conn) count(sent, read int) {
	if read > 0 {
		c.heard.Store(int64(monotonic()))
		c.read.Add(uint64(read))
	}
	if sent > 0 {
		c.wrote.Add(uint64(sent))
	}
	if sent+read > 0 {
		c.traffic.Wire(sent, read)
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.pipe != nil {
		return c.pipe.Write(b)
	}
	n, err := c.Conn.Write(b)
	c.count(n, 0)
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		close(c.closed)
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}
