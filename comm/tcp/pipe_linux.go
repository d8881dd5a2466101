package tcp

import (
	"errors"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported says whether this system reads and writes sockets without waiting.
const Supported = true

func writev(fd uintptr, v [][]byte) (int, error) {
	if len(v) == 1 {
		return unix.Write(int(fd), v[0])
	}
	return unix.Writev(int(fd), v)
}

func readv(fd uintptr, v [][]byte) (int, error) {
	if len(v[1]) == 0 {
		return unix.Read(int(fd), v[0])
	}
	return unix.Readv(int(fd), v)
}

// again says of an error that the call could not be made without waiting.
func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// ready says whether a socket has what is asked for, or an end.
func ready(fd uintptr, what int16) bool {
	v := [1]unix.PollFd{{Fd: int32(fd), Events: what}}
	n, err := unix.Poll(v[:], 0)
	return n != 0 || err != nil
}

func readable(fd uintptr) bool { return ready(fd, unix.POLLIN) }
func writable(fd uintptr) bool { return ready(fd, unix.POLLOUT) }

// yield lets the other goroutines of this process, then other processes run.
func yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// RoundTrip is the least that the kernel has seen a connection take to be answered; 0: it is
// not known.
func RoundTrip(c net.Conn) (d time.Duration) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && i.Min_rtt != math.MaxUint32 {
			d = time.Duration(i.Min_rtt) * time.Microsecond
		}
	})
	return d
}

// Suit sets a connection up for where its other end is: for a far one it takes the
// congestion control that the system has for its network. A kernel that refuses keeps its
// own choice.
func Suit(c net.Conn) {
	s, ok := c.(syscall.Conn)
	if !ok || RoundTrip(c) < near {
		return
	}
	name, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	raw, e := s.SyscallConn()
	if err != nil || e != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, strings.TrimSpace(string(name)))
	})
}
