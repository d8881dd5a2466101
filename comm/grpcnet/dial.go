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

// dial opens a stream and waits for the server's headers: until they are there,
// gRPC keeps every message for a retry. ctx bounds the opening only.
func (r *run) dial(ctx context.Context, addr string, desc *grpc.StreamDesc) (*dialed, error) {
	if err := r.cfg.safe("connect to", addr); err != nil {
		return nil, err
	}
	var last atomic.Pointer[conn]
	dialer := &net.Dialer{Control: congestion}
	cc, err := grpc.NewClient("passthrough:///"+addr, append(r.cfg.dialOptions(),
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
		return nil, err
	}
	sctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	d := &dialed{cc: cc, cancel: cancel}
	d.stream, err = cc.NewStream(sctx, desc, "/"+serviceName+"/"+desc.StreamName)
	if err == nil {
		_, err = d.stream.Header()
	}
	if err != nil {
		stop()
		d.close()
		return nil, err
	}
	d.conn = last.Load()
	if desc == &framesDesc {
		stop() // a link outlives its handshake
	}
	return d, nil
}
