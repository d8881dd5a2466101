package grpcnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gradlab/gradlab/comm"
)

// process is one line of the address table.
type process struct {
	Ranks       []int  `json:"ranks"`
	Addr        string `json:"addr"`
	Incarnation uint32 `json:"incarnation"`
	Host        string `json:"host"` // processes that name the same one may share memory
	Links       Links  `json:"links"`
}

// name says who is meant in an error.
func (p *process) name() string { return fmt.Sprintf("%s at %s", comm.RankList(p.Ranks), p.Addr) }

// joinRequest is what a process says about itself.
type joinRequest struct {
	Nonce       []byte  `json:"nonce"`
	Ranks       []int   `json:"ranks"`
	World       int     `json:"world"`
	Run         uint64  `json:"run"`
	Incarnation uint32  `json:"incarnation"`
	Addr        string  `json:"addr"`
	Host        string  `json:"host"`
	Links       Links   `json:"links"`
	Identity    []Field `json:"identity"`
}

// joinReply is the coordinator's answer: a table, or why there is none.
type joinReply struct {
	Refused string       `json:"refused,omitempty"`
	Fields  []Difference `json:"fields,omitempty"`
	Table   []process    `json:"table,omitempty"`
	Lead    int          `json:"lead,omitempty"` // the coordinator's line in the table
	Session []byte       `json:"session,omitempty"`
	// Of a run that goes on, which the process joins: processes that are gone, and how long
	// it has gone on.
	Late    bool          `json:"late,omitempty"`
	Gone    []int         `json:"gone,omitempty"`
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// identity is what two processes compare: the run, its size and the caller's
// fields.
func identity(run uint64, world int, fields []Field) []Field {
	return append([]Field{{Name: "run", Value: fmt.Sprintf("%016x", run)}, {Name: "world", Value: fmt.Sprint(world)}}, fields...)
}

// join asks the coordinator for a place in the run and waits for the table.
func (r *run) join(ctx context.Context) (joinReply, error) {
	// The coordinator's own timeout comes first: it knows who is missing.
	wait := r.cfg.JoinTimeout + r.cfg.ConnectTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, wait, r.noCoordinator("no answer from the coordinator at %s within %v", r.cfg.Coordinator, wait))
	defer cancel()
	reply, err := r.askToJoin(ctx)
	for r.cfg.Late && ctx.Err() == nil && isAway(err) { // until all meet again
		t := time.NewTimer(lookAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		reply, err = r.askToJoin(ctx)
	}
	var m *MismatchError
	var ref *RefusedError
	var addr *AddressError
	var missing *MissingError
	if err == nil || errors.As(err, &m) || errors.As(err, &ref) || errors.As(err, &addr) || errors.As(err, &missing) {
		return reply, err
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return reply, cause
		}
		return reply, fmt.Errorf("%w (%s)", cause, status.Convert(err).Message())
	}
	if isAway(err) { // it was there, and died
		return reply, r.noCoordinator("joining at %s: %s", r.cfg.Coordinator, status.Convert(err).Message())
	}
	return reply, fmt.Errorf("grpcnet: joining at %s: %s", r.cfg.Coordinator, status.Convert(err).Message())
}

// isAway says of what a call ended with that the other process went away in it, or says so.
func isAway(err error) bool { return status.Code(err) == codes.Unavailable || errors.Is(err, io.EOF) }

// noCoordinator says that the coordinator is missing, which may yet be on its way.
func (r *run) noCoordinator(format string, args ...any) error {
	return &MissingError{Ranks: []int{0}, text: "grpcnet: " + fmt.Sprintf(format, args...)}
}

// find ends, with FindTimeout, a search for the coordinator. It is to be told when that has
// been found, and says whether that was in time.
func (r *run) find(end context.CancelCauseFunc) (found func() bool) {
	if r.cfg.FindTimeout == 0 {
		return func() bool { return true }
	}
	t := time.AfterFunc(r.cfg.FindTimeout, func() {
		end(r.noCoordinator("no answer from the coordinator at %s within %v", r.cfg.Coordinator, r.cfg.FindTimeout))
	})
	return t.Stop
}

func (r *run) askToJoin(ctx context.Context) (reply joinReply, err error) {
	coordinator := "the coordinator at " + r.cfg.Coordinator
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := r.find(cancel)
	d, err := r.dial(ctx, r.cfg.Coordinator, &joinDesc)
	if !found() {
		err = cmp.Or(err, errors.New("it answered too late"))
		return reply, fmt.Errorf("%w (%s)", context.Cause(ctx), status.Convert(err).Message())
	}
	var ref *RefusedError
	if errors.As(err, &ref) && ref.By != thisProcess {
		ref.By = coordinator
	}
	if err != nil {
		return reply, err
	}
	defer d.close()
	if r.lis == nil {
		if err := r.listenNear(d.conn); err != nil {
			return reply, err
		}
	}
	var c challenge
	if err := recvJSON(d.stream, &c); err != nil {
		return reply, err
	}
	if c.Protocol != protocol {
		// The coordinator is told too, so that both can say why.
		_ = sendJSON(d.stream, sealed{Protocol: protocol})
		return reply, protocolMismatch(r.cfg.Ranks, c.Protocol, protocol)
	}
	q := joinRequest{
		Nonce: newNonce(), Ranks: r.cfg.Ranks, World: r.cfg.World, Run: r.cfg.Run,
		Incarnation: r.cfg.Incarnation, Addr: r.addr, Host: r.cfg.machine, Links: r.cfg.Links, Identity: r.cfg.Identity,
	}
	if err := sendSealed(d.stream, []byte(r.cfg.Token), "join", c.Nonce, q); err != nil {
		return reply, err
	}
	var m sealed
	if err := recvJSON(d.stream, &m); err != nil {
		return reply, err
	}
	if err := m.open([]byte(r.cfg.Token), "joined", q.Nonce, &reply); err != nil {
		return joinReply{}, &RefusedError{By: coordinator, Reason: wrongToken}
	}
	switch {
	case len(reply.Fields) > 0:
		return reply, &MismatchError{Ranks: r.cfg.Ranks, Fields: reply.Fields}
	case reply.Refused != "":
		return reply, &RefusedError{By: coordinator, Reason: reply.Refused}
	}
	host, _, _ := net.SplitHostPort(r.cfg.Coordinator)
	far := !isLoopback(d.conn.RemoteAddr())
	for i := range reply.Table {
		reply.Table[i].Addr = reachable(reply.Table[i].Addr, host, far)
	}
	return reply, nil
}

// listenNear begins to listen at the address by which a connection leaves. The
// coordinator tells the others under which one it sees this process.
func (r *run) listenNear(c *conn) error {
	l, err := r.cfg.bind(near(c))
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	r.addr = r.cfg.advertised(net.JoinHostPort("", port))
	r.listen(l)
	return nil
}

func protocolMismatch(ranks []int, coordinator, joiner int) *MismatchError {
	return &MismatchError{Ranks: ranks, Fields: []Difference{{Name: "protocol version", Coordinator: fmt.Sprint(coordinator), Joiner: fmt.Sprint(joiner)}}}
}

// reachable replaces an unspecified host by the one the process was seen at. far: it
// was seen from another address than loopback, so that loopback is not its own.
func reachable(addr, seen string, far bool) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && (ip.IsUnspecified() || far && ip.IsLoopback()) {
		return net.JoinHostPort(seen, port)
	}
	return addr
}

// within runs fn and gives up on it after d; fn ends when its stream does.
func within(d time.Duration, what string, fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("no %s within %v", what, d)
	}
}
