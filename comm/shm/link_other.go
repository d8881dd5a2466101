//go:build !linux

package shm

import (
	"context"
	"errors"
)

// Supported says whether this system can share memory.
const Supported = false

var errUnsupported = errors.New("shared memory between processes is not supported on this system")

// Host names what two processes must have in common to share memory. It is
// empty where that cannot be told.
func Host() string { return "" }

// Create makes memory with rings of size bytes and the offer for the other side.
func Create(int) (*Link, Offer, error) { return nil, Offer{}, errUnsupported }

// Open takes an offer of another process of this host.
func Open(Offer, int) (*Link, error) { return nil, errUnsupported }

// Settle gives up what only the handshake needed.
func (l *Link) Settle() {}

// Close ends all waits on both sides.
func (l *Link) Close() {}

// Unmap gives the memory back.
func (l *Link) Unmap() {}

type (
	bell struct{}
	ear  struct{}
)

func (*bell) ring()                           {}
func (*ear) listen(ctx context.Context) error { return errUnsupported }
func (*ear) interrupt()                       {}
func yield()                                  {}
