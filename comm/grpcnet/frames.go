package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// A connection for frames comes to the same port as gRPC's, through the same guard. Behind
// that its caller says what it is for, and shows a ticket of its own making: a number that
// is not to be guessed. It is set aside until the request that names the ticket comes over
// the link's stream, sealed with the secret of the rendezvous and the caller's place in it.
// The guard lets nobody pass who does not know the run's token, so none is set aside for a
// stranger.

// What a connection that the guard let pass is for.
const (
	forGRPC   = 'g'
	forFrames = 'f'
)

// dialAside makes a connection to a process, which has it set aside.
func (c *Config) dialAside(ctx context.Context, to *process, t *comm.Traffic) (*aside, error) {
	raw, err := c.dialer().DialContext(ctx, "tcp", to.Addr)
	if err != nil {
		return nil, err
	}
	a := &aside{conn: newConn(raw, t)}
	stop := context.AfterFunc(ctx, func() { _ = a.conn.Close() })
	a.secured, a.ticket, err = c.guard(nil, nil).present(ctx, a.conn, to)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = a.conn.Close()
		return nil, err
	}
	return a, nil
}

// present has a connection set aside for frames.
func (g *guard) present(ctx context.Context, c *conn, to *process) (secured net.Conn, ticket []byte, err error) {
	if secured, err = g.call(ctx, to.Addr, c); err != nil {
		return nil, nil, err
	}
	if err := c.mayBe(to.Ranks); err != nil {
		return nil, nil, err
	}
	ticket = newNonce()
	if _, err := secured.Write(append([]byte{forFrames}, ticket...)); err != nil {
		return nil, nil, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(secured, answer[:]); err != nil {
		return nil, nil, err
	}
	if answer[0] != forFrames {
		return nil, nil, fmt.Errorf("it answered %#02x", answer[0])
	}
	return secured, ticket, nil
}

// purpose reads what a connection that the guard let pass is for. One for frames is set
// aside, and taken is true.
func (g *guard) purpose(c *conn, secured net.Conn) (taken bool, err error) {
	var b [1 + nonceSize]byte
	if _, err := io.ReadFull(secured, b[:1]); err != nil {
		return false, err
	}
	switch b[0] {
	case forGRPC:
		return false, nil
	case forFrames:
	default:
		return false, fmt.Errorf("it wants a connection for %#02x", b[0])
	}
	if _, err := io.ReadFull(secured, b[1:]); err != nil {
		return false, err
	}
	if err := g.parked.add(string(b[1:]), &aside{conn: c, secured: secured}); err != nil {
		return false, err
	}
	_, err = secured.Write(b[:1])
	return true, err
}

// aside is a connection for frames whose link has not been introduced.
type aside struct {
	conn    *conn
	secured net.Conn    // conn, or TLS over it
	ticket  []byte      // of who dialled
	late    *time.Timer // gives it up
}

// parked are those of a process, by their tickets.
type parked struct {
	most int           // of them
	wait time.Duration // how long each may stay

	mu   sync.Mutex
	by   map[string]*aside
	over bool
}

// add sets a connection aside.
func (p *parked) add(ticket string, a *aside) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return errEnded
	case p.by[ticket] != nil || len(p.by) >= p.most:
		return fmt.Errorf("%d connections for frames wait for their links", len(p.by))
	}
	p.by[ticket] = a
	a.late = time.AfterFunc(p.wait, func() {
		if p.take([]byte(ticket)) == a {
			_ = a.conn.Close()
		}
	})
	return nil
}

// take gives out the connection with a ticket, nil if there is none.
func (p *parked) take(ticket []byte) *aside {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.by[string(ticket)]
	if a != nil {
		a.late.Stop()
		delete(p.by, string(ticket))
	}
	return a
}

// takeAll takes the connections of a process that were set aside under tickets.
func (p *parked) takeAll(tickets [][]byte, from *process, crowded bool) (w *way, err error) {
	if len(tickets) == 0 || len(tickets) > farPipes {
		return nil, fmt.Errorf("%d connections for frames", len(tickets))
	}
	var all []*aside
	for _, ticket := range tickets {
		a := p.take(ticket)
		if a == nil {
			err = errors.New("a connection for frames is not there any more")
			break
		}
		all = append(all, a)
		if err = a.conn.mayBe(from.Ranks); err != nil {
			break
		}
	}
	if err == nil {
		w, err = onPipes(all, crowded)
	}
	if err != nil {
		for _, a := range all {
			_ = a.conn.Close()
		}
	}
	return w, err
}

// end closes what was set aside, and refuses what comes.
func (p *parked) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for ticket, a := range p.by {
		a.late.Stop()
		_ = a.conn.Close()
		delete(p.by, ticket)
	}
}
