package tcp

import (
	"errors"
	"runtime"

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
