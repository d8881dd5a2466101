package grpcnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// linkRequest introduces the process that dials a link.
type linkRequest struct {
	Nonce       []byte `json:"nonce"`
	Run         uint64 `json:"run"`
	From        int    `json:"from"` // line in the address table
	To          int    `json:"to"`
	Incarnation uint32 `json:"incarnation"`

	// What frames are to go by: memory, or connections that were set aside under tickets.
	Memory *shm.Offer `json:"memory,omitempty"`
	Frames [][]byte   `json:"frames,omitempty"`
}

type linkReply struct {
	Refused string `json:"refused,omitempty"`
	// Taken is true if the offer was taken, otherwise Not says why not.
	Taken bool   `json:"taken,omitempty"`
	Not   string `json:"not,omitempty"`
}

// connect links this process with every other: it dials those with lower ranks
// and waits for those with higher ones.
func (r *run) connect(ctx context.Context) error {
	wait := r.cfg.ConnectTimeout + r.cfg.Lease
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("grpcnet: not linked within %v", wait))
	defer cancel()
	errs := make(chan error, r.self)
	for p := range r.self {
		go func() { errs <- r.link(ctx, p) }()
	}
	var err error
	for range r.self {
		if e := <-errs; e != nil && err == nil {
			err = e
			cancel() // the others need not go on
		}
	}
	if err != nil {
		return err
	}
	for p := r.self + 1; p < len(r.table); p++ {
		select {
		case <-r.linked[p]:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s has not called", context.Cause(ctx), r.table[p].name())
		}
	}
	return nil
}

// link dials process p.
func (r *run) link(ctx context.Context, p int) error {
	to := &r.table[p]
	fail := func(err error) error {
		var ref *RefusedError
		if errors.As(err, &ref) {
			return err
		}
		if c := context.Cause(ctx); c != nil {
			return fmt.Errorf("%w: %s (%s)", c, to.name(), status.Convert(err).Message())
		}
		return fmt.Errorf("grpcnet: linking with %s: %s", to.name(), status.Convert(err).Message())
	}
	d, err := r.dial(ctx, to.Addr, &framesDesc)
	if err == nil {
		if err = d.conn.mayBe(to.Ranks); err != nil {
			d.close()
			err = &RefusedError{By: thisProcess, Reason: fmt.Sprintf("%s: %v", to.name(), err)}
		}
	}
	if err != nil {
		return fail(err)
	}
	stop := context.AfterFunc(ctx, func() { d.cancel(nil) })
	w, err := r.introduce(ctx, d.stream, p)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		w.discard()
		d.close()
		return fail(err)
	}
	l := newLink(r, p, d.stream, d.conn, w)
	l.life = to.Incarnation
	if why := r.register(l); why != "" {
		w.discard()
		d.close()
		return fail(errors.New(why))
	}
	r.tasks.Go(func() {
		l.serve()
		d.close()
	})
	return nil
}

// introduce is the dialling side of a link's handshake. It returns what frames go by.
func (r *run) introduce(ctx context.Context, s stream, p int) (w *way, err error) {
	var c challenge
	if err := recvJSON(s, &c); err != nil {
		return nil, err
	}
	q := linkRequest{Nonce: newNonce(), Run: r.cfg.Run, From: r.self, To: p, Incarnation: r.cfg.Incarnation}
	w, err = r.offer(ctx, p, &q)
	if err != nil {
		return nil, err
	}
	agreed := false
	defer func() {
		if !agreed {
			w.discard()
			w = nil
		}
	}()
	if err := sendSealed(s, r.key, "link", c.Nonce, q); err != nil {
		return nil, err
	}
	var m sealed
	if err := recvJSON(s, &m); err != nil {
		return nil, err
	}
	var reply linkReply
	by := r.table[p].name()
	if err := m.open(r.key, "linked", q.Nonce, &reply); err != nil {
		return nil, &RefusedError{By: by, Reason: "it belongs to another run"}
	}
	if reply.Refused != "" {
		return nil, &RefusedError{By: by, Reason: reply.Refused}
	}
	switch {
	case w == nil: // which has been told
		return nil, nil
	case !reply.Taken:
		return nil, r.without(p, reply.Not)
	case w.memory != nil:
		if err := w.memory.Answered(); err != nil { // the other side will use what we do not see
			return nil, fmt.Errorf("shared memory: %w", err)
		}
		w.memory.Settle()
	}
	agreed = true
	return w, nil
}

// acceptLink serves a link that another process dials.
func (r *run) acceptLink(s grpc.ServerStream) error {
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	p, ok := peer.FromContext(s.Context())
	if !ok {
		return status.Error(codes.Internal, "a connection from nowhere")
	}
	c := r.lis.find(p.Addr)
	if c == nil {
		return status.Error(codes.Unavailable, "connection closed")
	}
	nonce := newNonce()
	var m sealed
	err := within(r.cfg.ConnectTimeout, "introduction", func() error {
		if err := sendJSON(s, challenge{Protocol: protocol, Nonce: nonce}); err != nil {
			return err
		}
		return recvJSON(s, &m)
	})
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	t := time.NewTimer(r.cfg.ConnectTimeout + r.cfg.Lease)
	defer t.Stop()
	select {
	case <-r.ready: // the caller may have its table before we have ours
	case <-s.Context().Done():
		return s.Context().Err()
	case <-t.C:
		return status.Error(codes.Unavailable, "the run has not begun")
	}
	var q linkRequest
	if err := m.open(r.key, "link", nonce, &q); err != nil {
		r.cfg.Logf("grpcnet: refused a link from %v: it does not know the run's secret", p.Addr)
		return status.Error(codes.Unauthenticated, "not of this run")
	}
	l, reply := r.welcome(&q, s, c)
	if reply.Refused != "" {
		r.cfg.Logf("grpcnet: refused a link from %v: %s", p.Addr, reply.Refused)
		return sendSealed(s, r.key, "linked", q.Nonce, reply)
	}
	err = sendSealed(s, r.key, "linked", q.Nonce, reply)
	if q.From > r.self && q.Incarnation == r.table[q.From].Incarnation {
		close(r.linked[q.From])
	}
	if err != nil {
		l.lost("connection lost: " + err.Error())
	}
	return errors.Join(err, l.serve())
}

// welcome judges an introduction: a process links once. Who was away and calls
// again, or calls for another run or incarnation, is refused.
func (r *run) welcome(q *linkRequest, s stream, c *conn) (l *link, reply linkReply) {
	late := r.comesLate(q)
	switch {
	case q.To != r.self || q.From <= r.self && !late || q.From >= len(r.table):
		reply.Refused = fmt.Sprintf("process %d does not call process %d", q.From, q.To)
	case q.Run != r.cfg.Run:
		reply.Refused = fmt.Sprintf("run %016x, this is %016x", q.Run, r.cfg.Run)
	case !late && q.Incarnation != r.table[q.From].Incarnation:
		reply.Refused = fmt.Sprintf("incarnation %d, the run has %d", q.Incarnation, r.table[q.From].Incarnation)
	default:
		if err := c.mayBe(r.table[q.From].Ranks); err != nil {
			reply.Refused = err.Error()
		}
	}
	if reply.Refused != "" {
		return nil, reply
	}
	w, err := r.takeOffer(q)
	if err != nil {
		reply.Not = err.Error()
		if err := r.without(q.From, reply.Not); err != nil {
			return nil, linkReply{Refused: err.Error()}
		}
	}
	reply.Taken = w != nil
	l = newLink(r, q.From, s, c, w)
	l.life = q.Incarnation
	if late {
		reply.Refused = r.replace(l)
	} else {
		reply.Refused = r.register(l)
	}
	if reply.Refused != "" {
		w.discard()
		return nil, linkReply{Refused: reply.Refused}
	}
	return l, reply
}

// register gives a link its place.
func (r *run) register(l *link) (why string) {
	if !r.links[l.peer].CompareAndSwap(nil, l) {
		return comm.RankList(r.table[l.peer].Ranks) + " linked before and may not come back in this run"
	}
	return ""
}

// mayBe says whether who calls from addr may be these ranks.
func (r *run) mayBe(addr net.Addr, ranks []int) error {
	c := r.lis.find(addr)
	if c == nil {
		return errors.New("its connection is closed")
	}
	return c.mayBe(ranks)
}

// adopt takes over the result of the rendezvous.
func (r *run) adopt(j joinReply) error {
	owner := make([]int, r.cfg.World)
	for i := range owner {
		owner[i] = -1
	}
	r.self = -1
	for p := range j.Table {
		for _, rank := range j.Table[p].Ranks {
			if rank < 0 || rank >= len(owner) || owner[rank] >= 0 {
				return errors.New("grpcnet: the coordinator's table is not one of this run")
			}
			owner[rank] = p
		}
		if slices.Equal(j.Table[p].Ranks, r.cfg.Ranks) {
			r.self = p
		}
	}
	if j.Lead < 0 || j.Lead >= len(j.Table) || r.self < 0 || slices.Contains(owner, -1) {
		return errors.New("grpcnet: the coordinator's table is not one of this run")
	}
	r.lead = j.Lead
	r.table, r.owner, r.key = slices.Clone(j.Table), owner, linkKey(r.cfg.Token, j.Session)
	r.links = newLinks(len(j.Table))
	r.linked = make([]chan struct{}, len(j.Table))
	r.lives.now = make([]atomic.Uint32, len(j.Table))
	for p := range r.linked {
		r.linked[p] = make(chan struct{})
		r.lives.now[p].Store(j.Table[p].Incarnation)
	}
	if j.Late {
		r.cfg.Incarnation = j.Table[r.self].Incarnation
		for _, p := range j.Gone { // before anybody who comes in their place is let in
			r.isOut(p, fmt.Sprintf("was gone before %s came", comm.RankList(r.cfg.Ranks)))
		}
	}
	close(r.ready)
	return nil
}
