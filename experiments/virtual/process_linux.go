package virtual

import (
	"os/exec"
	"runtime"
	"syscall"
)

// inGroup puts a child into a process group of its own, which ends as one: with the
// context, and with this process.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
}

// lockThread keeps a goroutine on its thread, and returns what lets it go.
func lockThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
