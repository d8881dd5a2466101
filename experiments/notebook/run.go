package notebook

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"
)

// Runner runs notebooks against the module in Root.
type Runner struct {
	Root string                           // folder of gradlab's go.mod
	Logf func(format string, args ...any) // hears what takes how long; may be nil
}

// Run runs all cells of the notebooks anew and returns them with their outputs.
// The files are not written. On an error, the notebooks come with what there is.
func (r Runner) Run(ctx context.Context, paths ...string) ([]*Notebook, error) {
	dir, err := os.MkdirTemp("", "gradlab-notebooks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := r.module(dir); err != nil {
		return nil, err
	}
	var out []*Notebook
	var bodies [][]int
	for i, p := range paths {
		n, err := Read(p)
		if err != nil {
			return nil, err
		}
		source, cells, err := program(p, n)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Join(dir, folder(i)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, folder(i), "main.go"), source, 0o644); err != nil {
			return nil, err
		}
		out, bodies = append(out, n), append(bodies, cells)
	}
	if err := r.build(ctx, dir); err != nil {
		return nil, err
	}
	for i, n := range out {
		begin := time.Now()
		if err := r.cells(ctx, filepath.Join(dir, "bin", folder(i)), n, bodies[i]); err != nil {
			return out, fmt.Errorf("%s: %w", paths[i], err)
		}
		r.logf("%s: %.1f s", filepath.Base(paths[i]), time.Since(begin).Seconds())
	}
	return out, nil
}

func folder(i int) string { return fmt.Sprintf("nb%02d", i) }

func (r Runner) logf(format string, args ...any) {
	if r.Logf != nil {
		r.Logf(format, args...)
	}
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

// module writes a go.mod that asks for what the module in Root asks for, and
// takes the module itself from there.
func (r Runner) module(dir string) error {
	root, err := filepath.Abs(r.Root)
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	m := moduleLine.FindSubmatch(mod)
	if m == nil {
		return fmt.Errorf("%s has no module line", filepath.Join(root, "go.mod"))
	}
	mod = moduleLine.ReplaceAll(mod, []byte("module notebooks.invalid"))
	mod = fmt.Appendf(mod, "\nrequire %s v0.0.0\n\nreplace %s => %s\n", m[1], m[1], root)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644)
}

func (r Runner) build(ctx context.Context, dir string) error {
	begin := time.Now()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-ldflags=-s -w", "-o", bin, "./...")
	c.Dir = dir
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building the notebooks: %w\n%s", err, text)
	}
	r.logf("building: %.1f s", time.Since(begin).Seconds())
	return nil
}

// cells runs a notebook's cells one after the other in a folder of their own.
func (r Runner) cells(ctx context.Context, binary string, n *Notebook, bodies []int) error {
	work, err := os.MkdirTemp("", "gradlab-notebook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	count := 0
	for _, c := range n.Cells {
		c.Outputs = nil
		if c.Type == "code" {
			count++
			c.Count = count
		}
	}
	for _, i := range bodies {
		if err := n.Cells[i].run(ctx, binary, fmt.Sprint(i), work); err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
	}
	return nil
}

// run runs one cell: what it prints becomes a stream, and what it shows through
// the kernel's pipe, here a file, becomes displayed data.
func (c *Cell) run(ctx context.Context, binary, number, work string) error {
	shown := filepath.Join(work, "shown-"+number)
	if err := os.WriteFile(shown, nil, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, number)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "GONB_PIPE="+shown)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, stdout.String(), stderr.String())
	}
	if stdout.Len() > 0 {
		c.Outputs = append(c.Outputs, Output{Type: "stream", Name: "stdout", Text: Lines(stdout.String())})
	}
	b, err := os.ReadFile(shown)
	if err != nil {
		return err
	}
	displayed, err := displays(b)
	c.Outputs = append(c.Outputs, displayed...)
	return err
}

// display is what a cell sends to the kernel to show.
type display struct {
	Data      map[string]any
	Metadata  map[string]any
	DisplayID string
}

func displays(b []byte) (out []Output, err error) {
	for d := gob.NewDecoder(bytes.NewReader(b)); ; {
		var m display
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("what the cell shows: %w", err)
		}
		o := Output{Type: "display_data", Data: map[string]json.RawMessage{}}
		for kind, v := range m.Data {
			switch v := v.(type) {
			case string:
				o.Data[kind], err = Lines(v).MarshalJSON()
			case []byte: // as base64, which is what JSON makes of bytes
				o.Data[kind], err = json.Marshal(v)
			default:
				err = fmt.Errorf("the cell shows %s as a %T", kind, v)
			}
			if err != nil {
				return out, err
			}
		}
		out = append(out, o)
	}
}

// Kinds are the MIME types of displayed data, sorted.
func (o Output) Kinds() []string {
	var out []string
	for k := range o.Data {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// text is what can be compared of an output.
func (o Output) text() string {
	if o.Type == "stream" {
		return string(o.Text)
	}
	var b strings.Builder
	for _, k := range o.Kinds() {
		var l Lines
		if strings.HasPrefix(k, "text/") && json.Unmarshal(o.Data[k], &l) == nil {
			b.WriteString(string(l))
		}
	}
	return b.String()
}
