package grpcnet

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/gradlab/gradlab/comm"
)

// bind listens at an address, if that is safe.
func (c *Config) bind(addr string) (net.Listener, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, &AddressError{Addr: addr, Err: fmt.Errorf("cannot listen on %q: %w", addr, err)}
	}
	if !a.IP.IsLoopback() && c.TLS == nil && c.derived == nil && !c.Insecure {
		return nil, c.plainText("listen on", addr)
	}
	lc := net.ListenConfig{Control: congestion}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, &AddressError{Addr: addr, Err: fmt.Errorf("cannot listen on %s: %w", addr, err)}
	}
	return l, nil
}

// plainText refuses plain text beyond the own machine.
func (c *Config) plainText(verb, addr string) error {
	return &AddressError{Addr: addr, Unsafe: true, Err: fmt.Errorf("will not %s %s in plain text: it is not a loopback address, so anyone on the network could read and join; set Token or TLS, or Insecure if the network is trusted", verb, addr)}
}

// OnLoopback says of an address, host:port, that it is written as one of this
// machine alone. Other names than localhost may lead here too, but elsewhere mean
// this machine all the same.
func OnLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// advertised is the address that the others are told, for a listener's.
func (c *Config) advertised(listener string) string {
	if c.Advertise == "" {
		return listener
	}
	_, own, _ := net.SplitHostPort(listener)
	host, port, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		host, port = strings.Trim(c.Advertise, "[]"), "0"
	}
	if port == "0" || port == "" {
		port = own
	}
	return net.JoinHostPort(host, port)
}

// near is where to listen for a process that reaches the coordinator by c: any free
// port of the same address. A name that leads to loopback here is one of this machine
// elsewhere, so that is not enough.
func near(c *conn) string {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok || a.IP.IsLoopback() {
		return ":0"
	}
	return (&net.TCPAddr{IP: a.IP, Zone: a.Zone}).String()
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
