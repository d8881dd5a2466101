//go:build !linux

package tcp

import (
	"errors"
	"net"
	"time"
)

// Supported says whether this system reads and writes sockets without waiting.
const Supported = false

var errUnsupported = errors.New("sockets without waiting are not supported on this system")

func writev(uintptr, [][]byte) (int, error) { return 0, errUnsupported }
func readv(uintptr, [][]byte) (int, error)  { return 0, errUnsupported }
func again(error) bool                      { return false }
func readable(uintptr) bool                 { return true }
func writable(uintptr) bool                 { return true }
func yield()                                {}

// RoundTrip is the least that a connection took to be answered; 0: it is not known.
func RoundTrip(net.Conn) time.Duration { return 0 }

// Suit sets a connection up for where its other end is.
func Suit(net.Conn) {}
