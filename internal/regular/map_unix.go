//go:build linux || darwin || freebsd || netbsd || openbsd

package regular

import (
	"os"
	"runtime"
	"syscall"
)

// Map maps a file into memory, read-only: its pages are shared by all processes that do, and
// are read when they are needed. The mapping is taken back some time after the returned handle
// is no longer reachable; the bytes must not be used then.
func Map(path string) (b []byte, hold *Mapping, err error) {
	f, err := open(path)
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
			hold = &Mapping{b}
			runtime.AddCleanup(hold, func(b []byte) { _ = syscall.Munmap(b) }, b)
			return b, hold, nil
		}
	}
	b, err = os.ReadFile(path) // a file system that cannot map
	return b, nil, err
}
