package grpcnet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// congestion chooses TCP reno for a socket: on loopback and in a cluster the
// pacing of other schemes halves what gRPC reaches. A kernel that refuses keeps
// its own choice.
func congestion(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
