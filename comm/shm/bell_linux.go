package shm

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bell is the end of a pipe that wakes the other side.
type bell struct {
	file *os.File
	once sync.Once
	raw  syscall.RawConn
	push func(fd uintptr) bool
}

// ring never waits: a pipe that is full has woken the other side already, and
// one that is closed wakes nobody.
func (b *bell) ring() {
	b.once.Do(func() {
		b.raw, _ = b.file.SyscallConn()
		one := []byte{1}
		b.push = func(fd uintptr) bool {
			_, _ = unix.Write(int(fd), one)
			return true
		}
	})
	if b.raw != nil {
		_ = b.raw.Write(b.push)
	}
}

// ear is the end of a pipe on which a side that sleeps is woken.
type ear struct {
	file *os.File
	buf  [64]byte
}

// listen waits for the bell, ctx, an interrupt, or the other side's end
// (io.EOF). It may also return for no reason.
func (e *ear) listen(ctx context.Context) error {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, e.interrupt)
		defer stop()
	}
	_, err := e.file.Read(e.buf[:])
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = e.file.SetReadDeadline(time.Time{})
		return context.Cause(ctx)
	case errors.Is(err, os.ErrClosed):
		return ErrClosed
	}
	return io.EOF
}

// interrupt lets a listen return, the next one if there is none.
func (e *ear) interrupt() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) }

// yield lets the other goroutines of this process, then other processes run.
func yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
