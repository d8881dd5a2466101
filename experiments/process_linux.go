package experiments

import (
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
