//go:build !linux

package tcp

import "errors"

// Supported says whether this system reads and writes sockets without waiting.
const Supported = false

var errUnsupported = errors.New("sockets without waiting are not supported on this system")

func writev(uintptr, [][]byte) (int, error) { return 0, errUnsupported }
func readv(uintptr, [][]byte) (int, error)  { return 0, errUnsupported }
func again(error) bool                      { return false }
func readable(uintptr) bool                 { return true }
func writable(uintptr) bool                 { return true }
func yield()                                {}
