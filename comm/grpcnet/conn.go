package grpcnet

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
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
}

// epoch0 is where this process's monotonic time starts.
var epoch0 = time.Now()

func monotonic() time.Duration { return time.Since(epoch0) }

func newConn(c net.Conn, t *comm.Traffic) *conn {
	n := &conn{Conn: c, traffic: t, closed: make(chan struct{})}
	n.heard.Store(int64(monotonic()))
	return n
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(int64(monotonic()))
		c.read.Add(uint64(n))
		c.traffic.Wire(0, n)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.wrote.Add(uint64(n))
		c.traffic.Wire(n, 0)
	}
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
