package patience

import (
	"os"
	"syscall"
)

// room is what tests may want of a file system in memory, in bytes, and noexec is its flag
// if programs are not run from there.
const (
	room   = 2 << 30
	noexec = 8
)

// inMemory lets temporary files lie in memory, if nobody said otherwise and there is
// room: runs are flushed to the disk at every mark, and tests need not wait for that.
func inMemory() {
	const shm = "/dev/shm"
	var at syscall.Statfs_t
	if os.TempDir() == "/tmp" && syscall.Statfs(shm, &at) == nil && at.Bavail*uint64(at.Bsize) >= room && int64(at.Flags)&noexec == 0 {
		if probe, err := os.MkdirTemp(shm, "gradlab-test-"); err == nil {
			os.Remove(probe)
			os.Setenv("TMPDIR", shm)
		}
	}
}
