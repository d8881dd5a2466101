package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/comm/shm"
	"github.com/gradlab/gradlab/comm/tcp"
)

// memory says whether frames may go through shared memory.
func (l Links) memory() bool { return l == LinksAuto || l == LinksSHM }

// sockets says whether frames may go over a TCP connection of their own.
func (l Links) sockets() bool { return l == LinksAuto || l == LinksTCP }

// sharing says whether two processes are to share memory.
func sharing(a, b *process) bool {
	return a.Host != "" && a.Host == b.Host && a.Links.memory() && b.Links.memory()
}

// meetable looks for processes that insist on what they cannot have with another one. All
// processes find the same.
func (r *run) meetable() error {
	for i := range r.table {
		for j := range r.table {
			a, b := &r.table[i], &r.table[j]
			switch {
			case i == j:
			case a.Links == LinksSHM && !sharing(a, b):
				return fmt.Errorf("grpcnet: links=%s for %s, but there is no shared memory with %s: it is on another host, in another container, or was told to use links=%s", LinksSHM, a.name(), b.name(), b.Links)
			case a.Links == LinksTCP && !b.Links.sockets():
				return fmt.Errorf("grpcnet: links=%s for %s, but %s was told to use links=%s", LinksTCP, a.name(), b.name(), b.Links)
			}
		}
	}
	return nil
}

// way is what two processes agreed on for their frames: memory, or a connection. A nil one
// is the link's stream.
type way struct {
	memory *shm.Link
	conn   lane.Conn
	on     *conn // one of conn's
}

// lane makes a link's lane, nil if frames go by the stream.
func (w *way) lane(l *link) *lane.Lane {
	c := l.run.cfg
	limits := lane.Limits{Frame: c.MaxFrame, Message: 4 + maxCause, Queue: c.QueueBytes, Deadline: c.Deadline, Lease: c.Lease}
	switch {
	case w == nil:
		return nil
	case w.memory != nil:
		if crowded(l.run.table, l.run.self) {
			w.memory.Crowded()
		}
		return lane.New(l, lane.Memory(w.memory, l.run.wire), false, limits)
	}
	return lane.New(l, lane.Socket(w.conn), c.checked(w.on), limits)
}

// onPipes is the way over connections that the guard let pass, in their order.
func onPipes(all []*aside, crowded bool) (*way, error) {
	var pipes []*tcp.Pipe
	for _, a := range all {
		p, err := tcp.New(a.conn.Conn, a.conn, crowded, a.conn.count)
		if err != nil {
			return nil, err
		}
		if a.secured != net.Conn(a.conn) {
			p.Under(a.secured)
			a.conn.pipe = p
		}
		pipes = append(pipes, p)
	}
	w := &way{conn: pipes[0], on: all[0].conn}
	if len(pipes) > 1 {
		w.conn = tcp.NewBundle(pipes)
	}
	return w, nil
}

// discard gives up what no link will use.
func (w *way) discard() {
	switch {
	case w == nil:
	case w.memory != nil:
		w.memory.Close()
		w.memory.Unmap()
	default:
		w.conn.Close()
	}
}

// offer prepares what frames to process p are to go by: memory, a connection, or nothing,
// where that is wanted or permitted. q tells the other process.
func (r *run) offer(ctx context.Context, p int, q *linkRequest) (w *way, err error) {
	own, to := &r.table[r.self], &r.table[p]
	switch {
	case sharing(own, to):
		memory, o, err := shm.Create(lane.MemoryBytes)
		if err != nil {
			return nil, r.without(p, err.Error())
		}
		q.Memory = &o
		return &way{memory: memory}, nil
	case own.Links.sockets() && to.Links.sockets():
		w, tickets, err := r.dialFrames(ctx, to)
		if err != nil {
			return nil, r.without(p, err.Error())
		}
		q.Frames = tickets
		return w, nil
	}
	return nil, nil
}

// far is the round trip from which one connection may be limited, by what the system lets
// it have under way or by losses, and farPipes how many there are then.
const (
	far      = 2 * time.Millisecond
	farPipes = 4
)

// dialFrames makes connections for frames to a process, which has them set aside under the
// tickets.
func (r *run) dialFrames(ctx context.Context, to *process) (w *way, tickets [][]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.ConnectTimeout, fmt.Errorf("no connection within %v", r.cfg.ConnectTimeout))
	defer cancel()
	first, err := r.cfg.dialAside(ctx, to, r.wire)
	if err != nil {
		return nil, nil, err
	}
	all := []*aside{first}
	n := r.cfg.pipes
	if n == 0 && tcp.RoundTrip(first.conn.Conn) >= far {
		n = farPipes
	}
	if n > 1 {
		all = append(all, make([]*aside, n-1)...)
		errs := make([]error, len(all))
		var more sync.WaitGroup
		for i := 1; i < len(all); i++ {
			more.Go(func() { all[i], errs[i] = r.cfg.dialAside(ctx, to, r.wire) })
		}
		more.Wait()
		err = errors.Join(errs...)
	}
	if err == nil {
		w, err = onPipes(all, crowded(r.table, r.self))
	}
	for _, a := range all {
		switch {
		case a == nil:
		case err != nil:
			_ = a.conn.Close()
		default:
			tickets = append(tickets, a.ticket)
		}
	}
	return w, tickets, err
}

// takeOffer takes what another process offers for frames.
func (r *run) takeOffer(q *linkRequest) (*way, error) {
	own, from := &r.table[r.self], &r.table[q.From]
	switch {
	case q.Memory != nil && sharing(own, from):
		memory, err := shm.Open(*q.Memory, lane.MemoryBytes)
		if err != nil {
			return nil, err
		}
		return &way{memory: memory}, nil
	case q.Frames != nil && own.Links.sockets():
		return r.parked.takeAll(q.Frames, from, crowded(r.table, r.self))
	}
	return nil, errors.New("it offers nothing")
}

// without goes on with frames to process p in the link's stream, if that is permitted.
func (r *run) without(p int, why string) error {
	own, other := &r.table[r.self], &r.table[p]
	switch what := own.Links; {
	case what == LinksSHM:
		return fmt.Errorf("grpcnet: links=%s, but there is no shared memory with %s: %s", what, other.name(), why)
	case what == LinksTCP:
		return fmt.Errorf("grpcnet: links=%s, but there is no TCP connection for frames with %s: %s", what, other.name(), why)
	case other.Links == LinksAuto && what == LinksAuto:
		r.cfg.Logf("grpcnet: frames between this process and %s go over gRPC, which costs more processor time: %s", other.name(), why)
	}
	return nil
}

// crowded says whether processes of the host of one outnumber its cores.
func crowded(table []process, self int) bool {
	n := 0
	for i := range table {
		if table[i].Host == table[self].Host {
			n++
		}
	}
	return n > runtime.NumCPU()
}

// Fetch implements comm.Fetcher.
func (r *run) Fetch(w *comm.Receipt, from int, wait bool) {
	if from < 0 || from >= len(r.owner) {
		return
	}
	if l := r.links[r.owner[from]].Load(); l != nil && l.lane != nil {
		l.lane.Fetch(w, wait)
	}
}

// Sleeps implements comm.Fetcher: whoever sleeps needs the goroutines of lanes.
func (r *run) Sleeps(more int) {
	if r.sleeping.Add(int32(more)); more < 0 {
		return
	}
	for i := range r.links {
		if l := r.links[i].Load(); l != nil && l.lane != nil {
			l.lane.Rouse()
		}
	}
}
