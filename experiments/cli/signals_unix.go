//go:build unix

package cli

import (
	"os"
	"syscall"
)

// requeue is the signal by which schedulers say ahead that time is up, as sbatch
// --signal=USR1@60 does: the run is to stop, and to be started again.
var requeue os.Signal = syscall.SIGUSR1

var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, requeue}
