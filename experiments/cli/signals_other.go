//go:build !unix

package cli

import (
	"os"
	"syscall"
)

// requeue is no signal here.
var requeue os.Signal

var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
