package experiments

import (
	"os/exec"
	"syscall"
)

// dieWithParent puts a child in a process group of its own, so that Ctrl-C
// reaches the launcher alone, and ends it when the launcher dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
