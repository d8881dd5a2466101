package experiments

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent puts a child in a process group of its own, so that Ctrl-C
// reaches the launcher alone, and ends it when the launcher dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lock keeps other processes from writing to a folder; release, or the end of
// this process, undoes it.
func lock(path string) (release func(), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s is in use by another process (%w)", path, err)
	}
	return func() { d.Close() }, nil
}

// Busy reports whether a process is writing to a run's folder.
func Busy(path string) bool {
	d, err := os.Open(path)
	if err != nil {
		return false
	}
	defer d.Close()
	return errors.Is(syscall.Flock(int(d.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
