package grpcnet

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gradlab/gradlab/comm"
)

// rendezvous is the coordinator's list of who has come.
type rendezvous struct {
	cfg     *Config
	session []byte

	mu      sync.Mutex
	members []*member
	owner   map[int]*member
	refused []string // lately, for the message of a timeout
	err     error
	over    bool
	done    chan struct{} // closed with over
	table   []process
	lead    int // the coordinator's line in it
}

type member struct {
	process
}

func newRendezvous(cfg *Config, addr string) *rendezvous {
	v := &rendezvous{cfg: cfg, session: newNonce(), owner: map[int]*member{}, done: make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.add(&member{process{Ranks: cfg.Ranks, Addr: addr, Incarnation: cfg.Incarnation, Host: cfg.machine, Links: cfg.Links}})
	return v
}

// add takes a member in; the last one completes the table. Callers hold mu.
func (v *rendezvous) add(m *member) {
	v.members = append(v.members, m)
	for _, r := range m.Ranks {
		v.owner[r] = m
	}
	if len(v.owner) < v.cfg.World {
		return
	}
	for _, m := range v.members {
		v.table = append(v.table, m.process)
	}
	slices.SortFunc(v.table, func(a, b process) int { return slices.Min(a.Ranks) - slices.Min(b.Ranks) })
	v.lead = slices.IndexFunc(v.table, func(p process) bool { return slices.Equal(p.Ranks, v.cfg.Ranks) })
	v.end(nil)
}

// end decides the rendezvous. Callers hold mu.
func (v *rendezvous) end(err error) {
	if !v.over {
		v.over, v.err = true, err
		close(v.done)
	}
}

// leave forgets a member that went away before the run began.
func (v *rendezvous) leave(m *member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	v.members = slices.DeleteFunc(v.members, func(o *member) bool { return o == m })
	for _, r := range m.Ranks {
		delete(v.owner, r)
	}
	v.cfg.Logf("grpcnet: %s left before the run began", m.name())
}

// wait returns the table when all ranks are there.
func (v *rendezvous) wait(ctx context.Context) (joinReply, error) {
	t := time.NewTimer(v.cfg.JoinTimeout)
	defer t.Stop()
	var err error
	select {
	case <-v.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-t.C:
		err = v.missing()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.end(err)
	return joinReply{Table: v.table, Session: v.session, Lead: v.lead}, v.err
}

// missing words a timeout.
func (v *rendezvous) missing() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var here, gone []int
	for r := range v.cfg.World {
		if v.owner[r] != nil {
			here = append(here, r)
		} else {
			gone = append(gone, r)
		}
	}
	s := fmt.Sprintf("grpcnet: %s did not join within %v (%s did)", comm.RankList(gone), v.cfg.JoinTimeout, comm.RankList(here))
	if len(v.refused) > 0 {
		s += "; refused meanwhile: " + strings.Join(v.refused, "; ")
	}
	return &MissingError{gone, len(v.refused) > 0, s}
}

// note tells a refusal.
func (v *rendezvous) note(from net.Addr, why string) {
	v.cfg.Logf("grpcnet: refused a process at %v: %s", from, why)
	v.remember(from, why)
}

// remember keeps a refusal for the message of a timeout.
func (v *rendezvous) remember(from net.Addr, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused = append(v.refused, fmt.Sprintf("%v: %s", from, why))
	if len(v.refused) > 4 {
		v.refused = v.refused[1:]
	}
}

// formed says whether all have come.
func (v *rendezvous) formed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.over && v.err == nil
}

// admit judges a request that has proven itself. A mismatch ends the run on
// both sides: a rank the run needs was started for another one.
func (v *rendezvous) admit(q *joinRequest) (*member, joinReply) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refuse := func(format string, args ...any) (*member, joinReply) {
		return nil, joinReply{Refused: fmt.Sprintf(format, args...)}
	}
	if fields := comm.Differences(identity(v.cfg.Run, v.cfg.World, v.cfg.Identity), identity(q.Run, q.World, q.Identity)); len(fields) > 0 {
		v.end(&MismatchError{Ranks: q.Ranks, Fields: fields})
		return nil, joinReply{Refused: "mismatch", Fields: fields}
	}
	if v.err != nil {
		return refuse("%v", v.err)
	}
	if len(q.Ranks) == 0 {
		return refuse("it hosts no rank")
	}
	for i, r := range q.Ranks {
		switch o := v.owner[r]; {
		case r < 0 || r >= v.cfg.World:
			return refuse("rank %d is not in 0 … %d", r, v.cfg.World-1)
		case slices.Contains(q.Ranks[:i], r):
			return refuse("rank %d is given twice", r)
		case o != nil:
			return refuse("rank %d has joined already, from %s", r, o.Addr)
		}
	}
	if v.over {
		return refuse("the run has begun or ended already")
	}
	m := &member{process{Ranks: q.Ranks, Addr: q.Addr, Incarnation: q.Incarnation, Host: q.Host, Links: q.Links}}
	v.add(m)
	return m, joinReply{}
}

// acceptJoin serves one process that wants to take part.
func (r *run) acceptJoin(s grpc.ServerStream) error {
	v := r.meet
	if v == nil {
		return status.Error(codes.FailedPrecondition, "this process is not the coordinator")
	}
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	from := net.Addr(&net.TCPAddr{})
	if p, ok := peer.FromContext(s.Context()); ok {
		from = p.Addr
	}
	nonce := newNonce()
	var m sealed
	err := within(r.cfg.ConnectTimeout, "request to join", func() error {
		if err := sendJSON(s, challenge{Protocol: protocol, Nonce: nonce}); err != nil {
			return err
		}
		return recvJSON(s, &m)
	})
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if m.Protocol != protocol {
		e := protocolMismatch(nil, protocol, m.Protocol)
		v.note(from, e.Error())
		return status.Error(codes.FailedPrecondition, e.Error())
	}
	key := []byte(r.cfg.Token)
	var q joinRequest
	if err := m.open(key, "join", nonce, &q); err != nil {
		v.note(from, err.Error())
		return status.Error(codes.Unauthenticated, err.Error()) // nothing that depends on the secret
	}
	if host, _, err := net.SplitHostPort(from.String()); err == nil {
		q.Addr = reachable(q.Addr, host, false)
	}
	var who *member
	var reply joinReply
	if err := r.mayBe(from, q.Ranks); err != nil {
		reply.Refused = err.Error()
	} else if r.cfg.Late && v.formed() && r.waits(q.Ranks) {
		return status.Error(codes.Unavailable, "the run goes on, and these ranks come when all meet again")
	} else if r.cfg.Late && v.formed() {
		reply = r.readmit(s.Context(), &q)
		if reply.Refused == "" {
			return sendSealed(s, key, "joined", q.Nonce, reply)
		}
	} else {
		who, reply = v.admit(&q)
	}
	if who == nil {
		v.note(from, reply.Refused)
		return sendSealed(s, key, "joined", q.Nonce, reply)
	}
	select {
	case <-v.done:
	case <-s.Context().Done():
		v.leave(who)
		return s.Context().Err()
	}
	if v.err != nil {
		reply = joinReply{Refused: v.err.Error()}
	} else {
		reply = joinReply{Table: v.table, Session: v.session, Lead: v.lead}
	}
	return sendSealed(s, key, "joined", q.Nonce, reply)
}
