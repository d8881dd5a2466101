package notebook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Notebook is a file of nbformat 4. What is not named here is kept as it is.
type Notebook struct {
	Cells    []*Cell         `json:"cells"`
	Metadata json.RawMessage `json:"metadata"`
	Format   int             `json:"nbformat"`
	Minor    int             `json:"nbformat_minor"`
}

// Cell is text or code with what it showed.
type Cell struct {
	Type     string
	ID       string
	Metadata json.RawMessage
	Source   Lines
	Count    int      // of executions; 0: never
	Outputs  []Output // of code
}

// Output is something that a cell showed: a text stream, or data of the kinds
// that a browser can show.
type Output struct {
	Type string                     // stream | display_data
	Name string                     // of a stream: stdout
	Text Lines                      // of a stream
	Data map[string]json.RawMessage // by MIME type: Lines, or base64
}

// Lines is a text. Files hold it as a list of lines with their ends, or as one
// string.
type Lines string

// MarshalJSON writes a list of lines.
func (l Lines) MarshalJSON() ([]byte, error) {
	lines := strings.SplitAfter(string(l), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return marshal(lines)
}

// UnmarshalJSON reads either form.
func (l *Lines) UnmarshalJSON(b []byte) error {
	var lines []string
	if json.Unmarshal(b, &lines) == nil {
		*l = Lines(strings.Join(lines, ""))
		return nil
	}
	return json.Unmarshal(b, (*string)(l))
}

// MarshalJSON writes what nbformat wants of each kind of cell.
func (c *Cell) MarshalJSON() ([]byte, error) {
	meta := c.Metadata
	if len(meta) == 0 {
		meta = json.RawMessage("{}")
	}
	if c.Type != "code" {
		return marshal(struct {
			Type     string          `json:"cell_type"`
			ID       string          `json:"id,omitempty"`
			Metadata json.RawMessage `json:"metadata"`
			Source   Lines           `json:"source"`
		}{c.Type, c.ID, meta, c.Source})
	}
	var count *int
	if c.Count > 0 {
		count = &c.Count
	}
	outputs := c.Outputs
	if outputs == nil {
		outputs = []Output{}
	}
	return marshal(struct {
		Type     string          `json:"cell_type"`
		Count    *int            `json:"execution_count"`
		ID       string          `json:"id,omitempty"`
		Metadata json.RawMessage `json:"metadata"`
		Outputs  []Output        `json:"outputs"`
		Source   Lines           `json:"source"`
	}{c.Type, count, c.ID, meta, outputs, c.Source})
}

// UnmarshalJSON reads a cell.
func (c *Cell) UnmarshalJSON(b []byte) error {
	var in struct {
		Type     string          `json:"cell_type"`
		ID       string          `json:"id"`
		Metadata json.RawMessage `json:"metadata"`
		Source   Lines           `json:"source"`
		Count    int             `json:"execution_count"`
		Outputs  []Output        `json:"outputs"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*c = Cell(in)
	return nil
}

// MarshalJSON writes what nbformat wants of each kind of output.
func (o Output) MarshalJSON() ([]byte, error) {
	if o.Type == "stream" {
		return marshal(map[string]any{"output_type": o.Type, "name": o.Name, "text": o.Text})
	}
	return marshal(map[string]any{"output_type": o.Type, "data": o.Data, "metadata": struct{}{}})
}

// UnmarshalJSON reads an output.
func (o *Output) UnmarshalJSON(b []byte) error {
	var in struct {
		Type string                     `json:"output_type"`
		Name string                     `json:"name"`
		Text Lines                      `json:"text"`
		Data map[string]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*o = Output(in)
	return nil
}

// marshal leaves <, > and & as they are: cells are code.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Read reads a notebook.
func Read(path string) (*Notebook, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(path, b)
}

// Decode reads a notebook's text; name is for messages.
func Decode(name string, b []byte) (*Notebook, error) {
	var n Notebook
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if n.Format != 4 {
		return nil, fmt.Errorf("%s: nbformat %d, want 4", name, n.Format)
	}
	for i, c := range n.Cells {
		if c == nil {
			return nil, fmt.Errorf("%s: cell %d is null", name, i+1)
		}
	}
	return &n, nil
}

// Encode is the notebook as Jupyter writes it: indented by one blank.
func (n *Notebook) Encode() ([]byte, error) {
	flat, err := marshal(n)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", " "); err != nil {
		return nil, err
	}
	return append(b.Bytes(), '\n'), nil
}
