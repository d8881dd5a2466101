package bench

import (
	"os"
	"os/exec"
	"syscall"
)

// detach puts a child in a process group of its own, so that Ctrl-C reaches us
// alone, and ends it when we die, even while it is paused.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pause and resume stop and continue a process. One that has ended needs
// neither.
func pause(p *os.Process)  { _ = p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// fifo makes a named pipe.
func fifo(path string) error { return syscall.Mkfifo(path, 0o600) }
