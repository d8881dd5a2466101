package grpcnet

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
)

// dialed is the client's end of a stream, on a connection of its own.
type dialed struct {
	stream grpc.ClientStream
	cc     *grpc.ClientConn
	cancel context.CancelCauseFunc
	conn   *conn
}

func (d *dialed) close() {
	d.cancel(nil)
	_ = d.cc.Close()
}

// dialer makes connections to other processes.
func (c *Config) dialer() *net.Dialer { return &net.Dialer{Control: congestion, Resolver: c.resolver} }

// dial opens a stream and waits for the server's headers: until they are there,
// gRPC keeps every message for a retry. ctx bounds the opening only.
func (r *run) dial(ctx context.Context, addr string, desc *grpc.StreamDesc) (*dialed, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host) != nil && !OnLoopback(addr) && r.cfg.TLS == nil && r.cfg.derived == nil && !r.cfg.Insecure {
		return nil, r.cfg.plainText("connect to", addr)
	}
	sctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var last atomic.Pointer[conn]
	var final atomic.Pointer[error] // no other try could end otherwise
	refused := func(_ net.Addr, err error) { final.Store(&err); cancel(err) }
	dialer := r.cfg.dialer()
	// A name is looked up at every try: one that is not known yet may be later.
	cc, err := grpc.NewClient("passthrough:///"+addr, append(r.cfg.dialOptions(refused),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			raw, err := dialer.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			c := newConn(raw, r.wire)
			last.Store(c)
			return c, nil
		}))...)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	d := &dialed{cc: cc, cancel: cancel}
	d.stream, err = cc.NewStream(sctx, desc, "/"+serviceName+"/"+desc.StreamName)
	if err == nil {
		_, err = d.stream.Header()
	}
	if err != nil {
		stop()
		d.close()
		if why := final.Load(); why != nil {
			return nil, *why
		}
		return nil, err
	}
	d.conn = last.Load()
	if desc == &framesDesc {
		stop() // a link outlives its handshake
	}
	return d, nil
}
