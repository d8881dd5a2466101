//go:build linux || darwin || freebsd || netbsd || openbsd

package data

import (
	"os"
	"syscall"
)

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
