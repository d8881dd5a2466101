//go:build !linux

package bench

import (
	"errors"
	"os"
	"os/exec"
)

// detach does nothing here: a child ends with its input.
func detach(*exec.Cmd) {}

// pause and resume do nothing here: a child waits for input, and its threads
// may spin for some milliseconds before they do.
func pause(*os.Process)  {}
func resume(*os.Process) {}

// fifo makes no named pipe here.
func fifo(string) error { return errors.ErrUnsupported }

// cpuOf is the processor time of processes, which is not known here.
func cpuOf([]int) float64 { return 0 }
