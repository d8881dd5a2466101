//go:build !linux

package bench

import "syscall"

// reno leaves the system's choice alone, as grpcnet does.
func reno(_, _ string, _ syscall.RawConn) error { return nil }
