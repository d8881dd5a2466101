package lab

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/gradlab/gradlab/experiments/figure"
)

// message is what GoNB's kernel shows of a cell's own: data by MIME type.
type message struct {
	Data      map[string]any
	Metadata  map[string]any
	DisplayID string
}

// pipe leads to the kernel. Outside a notebook there is none.
var pipe = sync.OnceValues(func() (*gob.Encoder, error) {
	path := os.Getenv("GONB_PIPE")
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return gob.NewEncoder(f), nil
})

// display shows data of one kind; outside a notebook, text is printed and
// pictures are not shown.
func display(kind, data string) error {
	e, err := pipe()
	if err != nil {
		return err
	}
	if e == nil {
		if strings.HasPrefix(kind, "text/") {
			_, err = io.WriteString(os.Stdout, data+"\n")
		}
		return err
	}
	return e.Encode(message{Data: map[string]any{kind: data}, Metadata: map[string]any{}})
}

// Show draws panels side by side over one legend.
func Show(panels ...figure.Figure) error {
	svg, err := figure.SVG(panels...)
	if err != nil {
		return err
	}
	return display("image/svg+xml", string(svg))
}

// ShowFile shows an SVG file, such as those of studies.
func ShowFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return display("image/svg+xml", string(b))
}

// Markdown shows text with marks.
func Markdown(format string, args ...any) error {
	return display("text/markdown", fmt.Sprintf(format, args...))
}

// Table shows rows under a header. Columns but the first are on the right.
func Table(header []string, rows [][]string) error {
	var b strings.Builder
	t := figure.Table{Header: header, Rows: rows, Right: figure.AllButFirst(len(header))}
	if err := t.Write(&b, "markdown", 0); err != nil {
		return err
	}
	return display("text/markdown", b.String())
}
