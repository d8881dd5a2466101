package outside

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// groupOf returns the process group at the other end of a connection, and 0 where it is
// unknown.
func groupOf(c net.Conn) (group int) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil || cred.Pid <= 0 {
			return
		}
		if group, err = syscall.Getpgid(int(cred.Pid)); err != nil {
			group = 0
		}
	})
	return group
}

// processorTime sums the processor time of all processes of some groups.
func processorTime(groups map[int]bool) (time.Duration, bool) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return 0, false
	}
	var ticks int64
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended meanwhile
		}
		// Behind the name, which can hold anything: state, parent, group, …
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 13 {
			continue
		}
		if group, err := strconv.Atoi(string(fields[2])); err != nil || !groups[group] {
			continue
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return 0, false
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100), true
}
