//go:build linux || darwin || freebsd || netbsd || openbsd

package data

import (
	"os"
	"runtime"
	"syscall"
)

// mapFile maps a file into memory, read-only: its pages are shared by all processes
// that do, and are read when they are needed. The mapping is taken back some time
// after the returned handle is no longer reachable; the bytes must not be used then.
func mapFile(path string) (b []byte, hold *mapping, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if n := st.Size(); n > 0 && n == int64(int(n)) {
		if b, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED); err == nil {
			hold = &mapping{b}
			runtime.AddCleanup(hold, func(b []byte) { _ = syscall.Munmap(b) }, b)
			return b, hold, nil
		}
	}
	b, err = os.ReadFile(path) // a file system that cannot map
	return b, nil, err
}

// onlyOne waits until no other process holds the lock of that name, and holds it
// until release. Where a file system has no locks, or the process ends, nobody waits.
func onlyOne(path string) (release func()) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return func() {}
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	return func() { f.Close() }
}
