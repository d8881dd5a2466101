package emulate

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm rings at a given instant. It is a timer of the kernel's: those of the Go
// runtime ring up to a millisecond late while a process has nothing else to do.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timerfd"), fd}, nil
}

// set lets it ring after d, in place of what was set before. It must not be
// called after close.
func (a *alarm) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil) // fails for a bad descriptor or time only
}

// wait waits until it rings, or is closed.
func (a *alarm) wait() error {
	var b [8]byte
	_, err := a.file.Read(b[:])
	return err
}

func (a *alarm) close() { _ = a.file.Close() }
