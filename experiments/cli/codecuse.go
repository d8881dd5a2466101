package cli

import (
	"fmt"
	"io"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// nearLossless is the contraction from which what a codec leaves out is not worth
// remembering: bf16 has 1−2⁻¹⁶, float8 0.98.
const nearLossless = 0.95

// codecUse writes what a codec guarantees, in words, and the commands that use it:
// inside feedback if it leaves much out and has no memory of its own.
func codecUse(w io.Writer, f compress.Family) error {
	b := compress.Block{Name: "use", Rows: 256, Cols: codecElements / 256, World: 8, Peer: -1, Seed: 1}
	if _, err := f.New(b); err != nil {
		return usageError{err}
	}
	spec := compress.Spec(f)
	about := ""
	for _, e := range compress.Families.Entries() {
		if e.Name == compress.Families.Name(f) {
			about = ": " + e.About
		}
	}
	fmt.Fprintf(w, "%s%s\n", spec, about)
	c, made := compress.ClaimsOf(f, b)
	if made {
		most := "at most "
		if c.Exact {
			most = ""
		}
		fmt.Fprintf(w, "%s%.3g bits an element (float32 has 32), for a tensor of %d elements\n", most, 8*float64(c.Size)/codecElements, codecElements)
	}
	use, why := spec, ""
	contracts := c.Delta > 0 || c.Absolute > 0
	wrapped := "feedback(" + spec + ")"
	switch {
	case compress.Remembers(f) || compress.KeepsReceiver(f):
		why = "It keeps what it leaves out and sends it later, so it needs no feedback around it."
	case c.Lossless:
		why = "It is lossless: there is nothing to make up for."
	case c.Unbiased:
		why = "It is right in the mean, so it needs no feedback around it."
		if !contracts && !math.IsInf(c.Omega, 1) {
			why += fmt.Sprintf(" Feedback over it alone is refused, as it is no contraction; feedback(contraction(%s)) is accepted.", spec)
		}
	case contracts && c.Delta < nearLossless:
		use = wrapped
		why = "It leaves part of every gradient out, always in the same direction: put feedback around it, which sends the rest later."
	case contracts:
		why = fmt.Sprintf("What it leaves out is small, so it works by itself; %s makes up for that too.", wrapped)
	default:
		why = "It has a bias and claims no bound on what it leaves out: use it by itself; feedback over it is refused."
	}
	fmt.Fprintln(w, why)
	beside := ""
	if compress.HasMomentum(f) {
		beside = " optimizer=sgd"
		fmt.Fprintln(w, "Its momentum is inside: use it with plain sgd, and write weight decay as chain(decay(rate=…,momentum=…),sgd) with its momentum.")
	}
	fmt.Fprintf(w, "\n  gradlab run quickstart 'codec=raw,%s'%s   # train with it, beside the uncompressed run\n", use, beside)
	fmt.Fprintf(w, "  gradlab codec check '%s'   # prove its claims; its error, bits and speed\n", use)
	_, err := fmt.Fprintf(w, "  gradlab help %s   # its options\n", compress.Families.Name(f))
	return err
}
