package bench

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reno gives a socket the congestion control that grpcnet gives its own.
func reno(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
