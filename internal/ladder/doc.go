// Package ladder holds tests that want processors: that small runs have the bits they have
// everywhere, on this machine; and with the tag ladder that they do so on older and other
// processors, by qemu-user, where a kernel that is reached without its instructions dies.
//
//	go test ./internal/ladder
//	go test -tags ladder ./internal/ladder
package ladder
