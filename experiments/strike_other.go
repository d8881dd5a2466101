//go:build !unix

package experiments

import "os"

// Signals that would stop a process and let it go on: there are none here.
var sigStop, sigCont os.Signal
