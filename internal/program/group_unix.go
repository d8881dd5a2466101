//go:build unix

package program

import (
	"os/exec"
	"syscall"
)

// group gives a process that is to be started a group of its own, which its children are
// of, and has Cancel end them all.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
