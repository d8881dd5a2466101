package grpcnet

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/gradlab/gradlab/comm"
)

// bind listens where the configuration says, if that is safe.
func (c *Config) bind() (net.Listener, error) {
	if err := c.safe("listen on", c.Listen); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: congestion}
	l, err := lc.Listen(context.Background(), "tcp", c.Listen)
	if err != nil {
		return nil, &AddressError{Addr: c.Listen, Err: fmt.Errorf("cannot listen on %s: %w", c.Listen, err)}
	}
	return l, nil
}

// safe refuses plain text beyond the own machine.
func (c *Config) safe(verb, addr string) error {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return &AddressError{Addr: addr, Err: fmt.Errorf("cannot %s %q: %w", verb, addr, err)}
	}
	if a.IP.IsLoopback() || c.TLS != nil || c.Insecure {
		return nil
	}
	return &AddressError{Addr: addr, Unsafe: true, Err: fmt.Errorf("will not %s %s in plain text: it is not a loopback address, so anyone on the network could read and join; set TLS, or Insecure if the network is trusted", verb, addr)}
}

// listener wraps connections and keeps strangers few: beyond limit, the oldest
// connection that has not proven itself is closed.
type listener struct {
	net.Listener
	traffic *comm.Traffic
	limit   int

	mu    sync.Mutex
	conns map[string]*conn // by remote address
	order []*conn          // not yet trusted, oldest first
}

func newListener(l net.Listener, t *comm.Traffic, limit int) *listener {
	return &listener{Listener: l, traffic: t, limit: limit, conns: map[string]*conn{}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newConn(raw, l.traffic)
	key := raw.RemoteAddr().String()
	c.onClose = func() { l.forget(key, c) }
	l.mu.Lock()
	l.conns[key] = c
	pending := l.order[:0]
	for _, o := range l.order {
		if !o.trusted.Load() {
			pending = append(pending, o)
		}
	}
	clear(l.order[len(pending):])
	l.order = append(pending, c)
	var oldest *conn
	if len(l.order) > l.limit {
		oldest = l.order[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

func (l *listener) forget(key string, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[key] == c {
		delete(l.conns, key)
	}
	for i, o := range l.order {
		if o == c {
			l.order = append(l.order[:i], l.order[i+1:]...)
			break
		}
	}
}

// find returns the connection from a remote address, nil if it is closed.
func (l *listener) find(addr net.Addr) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[addr.String()]
}
