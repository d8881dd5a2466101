package grpcnet

import (
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
)

// What one connection may cost. gRPC's defaults are unlimited or tuned for
// small messages; each is set on purpose.
const (
	maxMessage  = chunk + 4<<10
	socketBuf   = 512 << 10 // one syscall per half chunk; smaller halves the speed
	window      = 10 << 20  // of a stream: bounds run-ahead; less is acknowledged more often, more lies cold in memory
	connWindow  = 64 << 20  // of a connection, which has one long stream: never the limit
	maxStreams  = 8
	maxHeader   = 16 << 10
	minPing     = 5 * time.Second
	serverPing  = 5 * time.Second
	clientPing  = 10 * time.Second // gRPC raises anything less
	pingTimeout = 3 * time.Second
	maxPending  = 32 // connections that have not proven themselves, plus those of links
)

// pings are after how much silence gRPC asks a peer for a sign of life, and how long it waits
// for one. The watcher of links judges leases, and forgives what this process was away itself;
// gRPC does not, so it is to find a link dead only long after the watcher would have.
func (c *Config) pings(least time.Duration) (after, wait time.Duration) {
	return max(least, 2*c.Lease), max(pingTimeout, 2*c.Lease)
}

func (c *Config) serverOptions(refused func(net.Addr, error), aside *parked) []grpc.ServerOption {
	after, wait := c.pings(serverPing)
	return []grpc.ServerOption{
		grpc.Creds(c.guard(refused, aside)),
		grpc.ForceServerCodecV2(rawCodec{}),
		experimental.BufferPool(recvPool),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.WaitForHandlers(true),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(c.ConnectTimeout),
		grpc.ReadBufferSize(socketBuf),
		grpc.WriteBufferSize(socketBuf),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: c.JoinTimeout,
			Time:              after, Timeout: wait,
		}),
	}
}

func (c *Config) dialOptions(refused func(net.Addr, error)) []grpc.DialOption {
	after, wait := c.pings(clientPing)
	return []grpc.DialOption{
		grpc.WithTransportCredentials(c.guard(refused, nil)),
		experimental.WithBufferPool(recvPool),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.WaitForReady(true),
			grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithReadBufferSize(socketBuf),
		grpc.WithWriteBufferSize(socketBuf),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: after, Timeout: wait,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: c.ConnectTimeout,
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
	}
}
