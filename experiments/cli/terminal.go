package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// width is the columns of the terminal that w is, 0 if it is none.
func width(w io.Writer) int {
	if p, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = p.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// usageError is a mistake in what was typed: exit 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
