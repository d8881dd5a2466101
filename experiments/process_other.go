//go:build !linux

package experiments

import "os/exec"

// dieWithParent does nothing here: a child ends when its links break.
func dieWithParent(*exec.Cmd) {}
