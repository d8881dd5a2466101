//go:build !linux

package grpcnet

import "syscall"

// congestion leaves the system's choice alone.
func congestion(_, _ string, _ syscall.RawConn) error { return nil }
