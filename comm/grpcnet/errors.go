package grpcnet

import (
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// What all processes of a run must agree on, and where they do not: see package comm.
type (
	Field         = comm.Field
	Difference    = comm.Difference
	MismatchError = comm.MismatchError
)

// RefusedError says why another process would not have this one.
type RefusedError struct {
	By     string // who refused
	Reason string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("refused by %s: %s", e.By, e.Reason) }

// MissingError says which ranks did not come in time. They may yet be on their way.
type MissingError struct {
	Ranks   []int
	Refused bool // processes were refused meanwhile, perhaps theirs
	text    string
}

func (e *MissingError) Error() string { return e.text }

// AddressError says why an address cannot be used.
type AddressError struct {
	Addr   string
	Unsafe bool // it would be plain text beyond the own machine
	Err    error
}

func (e *AddressError) Error() string { return "grpcnet: " + e.Err.Error() }
func (e *AddressError) Unwrap() error { return e.Err }

// FencedError says that this process was away for so long that the others
// counted it as dead. Nothing it sends is accepted any more.
type FencedError struct {
	By     string // who noticed
	Silent time.Duration
	Lease  time.Duration
}

func (e *FencedError) Error() string {
	how := "found it dead"
	if e.Silent > 0 {
		how = fmt.Sprintf("found it silent for %v", e.Silent.Round(time.Millisecond))
	}
	return fmt.Sprintf("this process is fenced: %s %s, its lease is %v; the others count its ranks as dead", e.By, how, e.Lease)
}
