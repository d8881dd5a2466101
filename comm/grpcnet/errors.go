package grpcnet

import (
	"fmt"
	"strings"
	"time"
)

// Difference is an identity field that the coordinator and a joining process
// disagree on.
type Difference struct {
	Name        string `json:"name"`
	Coordinator string `json:"coordinator"`
	Joiner      string `json:"joiner"`
}

// MismatchError says that a process was started for another run than the
// coordinator's. Both sides return it.
type MismatchError struct {
	Ranks  []int        `json:"ranks"` // of the joining process
	Fields []Difference `json:"fields"`
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s cannot join, %d field(s) differ:", rankList(e.Ranks), len(e.Fields))
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "\n  %s: %s at the coordinator, %s at the joining process", f.Name, f.Coordinator, f.Joiner)
	}
	return b.String()
}

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

// rankList words a set of ranks.
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("ranks ")
	for i, r := range ranks {
		if i == 16 {
			fmt.Fprintf(&b, " … (%d in all)", len(ranks))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}

// diff compares identities by name, in the coordinator's order.
func diff(coordinator, joiner []Field) []Difference {
	const absent = "(absent)"
	theirs := map[string]string{}
	for _, f := range joiner {
		theirs[f.Name] = f.Value
	}
	var out []Difference
	mine := map[string]bool{}
	for _, f := range coordinator {
		mine[f.Name] = true
		v, ok := theirs[f.Name]
		if !ok {
			v = absent
		}
		if !ok || v != f.Value {
			out = append(out, Difference{f.Name, f.Value, v})
		}
	}
	for _, f := range joiner {
		if !mine[f.Name] {
			out = append(out, Difference{f.Name, absent, f.Value})
		}
	}
	return out
}
