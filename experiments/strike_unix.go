//go:build unix

package experiments

import (
	"os"
	"syscall"
)

// Signals that stop a process where it is, and let it go on.
var (
	sigStop os.Signal = syscall.SIGSTOP
	sigCont os.Signal = syscall.SIGCONT
)
