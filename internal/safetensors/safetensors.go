// Package safetensors reads and writes the safetensors layout: an 8-byte
// little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}, "__metadata__": {string: string}} padded with spaces to 8
// bytes, then the tensors, little-endian and contiguous. Python's safetensors
// loads what Encode writes. There is nothing to execute in it.
//
// Decode is total: any bytes give a File or an error. It allocates no more than
// a small multiple of its input.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Limits on a header; generous for checkpoints, tight for attackers.
const (
	MaxHeader  = 16 << 20
	MaxTensors = 100_000
)

// Tensor is a named array. Data holds Len(Shape) values of DType, row major.
type Tensor struct {
	Name  string
	DType string // "F32", "U8", …
	Shape []int
	Data  []byte
}

// File is a set of tensors and string metadata.
type File struct {
	Tensors []Tensor
	Meta    map[string]string
}

// Find returns the tensor called name, nil if there is none.
func (f *File) Find(name string) *Tensor {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			return &f.Tensors[i]
		}
	}
	return nil
}

var widths = map[string]int{"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}

// Errors that those of Decode wrap, one or the other.
var (
	ErrFormat = errors.New("not a valid safetensors file")
	ErrDType  = errors.New("a safetensors file with a tensor of a type that is not read here")
)

// others are the dtypes of the format that have no width of whole bytes here.
var others = []string{"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4", "C64"}

func bad(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, a...))
}

type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// size returns the byte length of a tensor, with checked arithmetic.
func size(dtype string, shape []int) (uint64, error) {
	w, ok := widths[dtype]
	if !ok {
		known := slices.Sorted(maps.Keys(widths))
		return 0, fmt.Errorf("dtype %.40q; want one of %s", dtype, strings.Join(known, ", "))
	}
	n := uint64(w)
	for _, d := range shape {
		if d < 0 || (d > 0 && n > (1<<62)/uint64(d)) {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		n *= uint64(d)
	}
	return n, nil
}

// Encode appends the file to dst. It fails on duplicate or empty names and on
// data that does not fit its shape.
func (f *File) Encode(dst []byte) ([]byte, error) {
	head := make(map[string]any, len(f.Tensors)+1)
	var off uint64
	for _, t := range f.Tensors {
		n, err := size(t.DType, t.Shape)
		if err != nil {
			return dst, fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
		}
		if n != uint64(len(t.Data)) {
			return dst, fmt.Errorf("safetensors: tensor %q has %d bytes, its shape %v needs %d", t.Name, len(t.Data), t.Shape, n)
		}
		if _, dup := head[t.Name]; dup || t.Name == "" || t.Name == "__metadata__" {
			return dst, fmt.Errorf("safetensors: tensor name %q is empty, reserved or taken", t.Name)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		head[t.Name] = entry{t.DType, shape, []uint64{off, off + n}}
		off += n
	}
	if f.Meta != nil {
		head["__metadata__"] = f.Meta
	}
	j, err := json.Marshal(head)
	if err != nil {
		return dst, err
	}
	if pad := len(j) % 8; pad > 0 {
		j = append(j, strings.Repeat(" ", 8-pad)...)
	}
	dst = slices.Grow(dst, 8+len(j)+int(off))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(j)))
	dst = append(dst, j...)
	for _, t := range f.Tensors {
		dst = append(dst, t.Data...)
	}
	return dst, nil
}

// Decode reads a whole file. Tensors alias b. Offsets must be contiguous and
// without holes, shapes must fit, nothing may follow the last tensor.
func Decode(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, bad("%d bytes", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > MaxHeader || n > uint64(len(b)-8) {
		return nil, bad("header of %d bytes in a file of %d", n, len(b))
	}
	head, data := b[8:8+n], b[8+n:]
	dec := json.NewDecoder(bytes.NewReader(head))
	var raw map[string]json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, bad("header: %v", err)
	}
	if rest := bytes.TrimRight(head[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, bad("%d bytes after the header", len(rest))
	}
	if len(raw) > MaxTensors {
		return nil, bad("%d tensors", len(raw))
	}
	if key := doubled(head); key != "" {
		return nil, bad("header: %.200q is there twice", key)
	}
	f := &File{}
	offs := make(map[string]uint64, len(raw))
	for name, msg := range raw {
		if name == "__metadata__" {
			if err := json.Unmarshal(msg, &f.Meta); err != nil {
				return nil, bad("metadata: %v", err)
			}
			continue
		}
		var e entry
		d := json.NewDecoder(bytes.NewReader(msg))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return nil, bad("tensor %q: %v", name, err)
		}
		sz, err := size(e.DType, e.Shape)
		if slices.Contains(others, e.DType) {
			return nil, fmt.Errorf("%w: tensor %q: %w", ErrDType, name, err)
		}
		if err != nil {
			return nil, bad("tensor %q: %v", name, err)
		}
		if len(e.Offsets) != 2 || e.Offsets[0] > e.Offsets[1] || e.Offsets[1] > uint64(len(data)) || e.Offsets[1]-e.Offsets[0] != sz {
			return nil, bad("tensor %q: offsets %v do not fit its shape or the file", name, e.Offsets)
		}
		offs[name] = e.Offsets[0]
		f.Tensors = append(f.Tensors, Tensor{name, e.DType, e.Shape, data[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]]})
	}
	sort.Slice(f.Tensors, func(i, j int) bool {
		a, b := f.Tensors[i], f.Tensors[j]
		if offs[a.Name] != offs[b.Name] {
			return offs[a.Name] < offs[b.Name]
		}
		if len(a.Data) != len(b.Data) { // empty tensors first
			return len(a.Data) < len(b.Data)
		}
		return a.Name < b.Name
	})
	var at uint64
	for _, t := range f.Tensors {
		if offs[t.Name] != at {
			return nil, bad("tensor %q begins at %d, want %d: overlap or hole", t.Name, offs[t.Name], at)
		}
		at += uint64(len(t.Data))
	}
	if at != uint64(len(data)) {
		return nil, bad("%d bytes after the last tensor", uint64(len(data))-at)
	}
	return f, nil
}

// doubled is the first key that some object of a JSON text has twice, "" if none has: a
// decoder would take the last without a word.
func doubled(text []byte) string {
	dec := json.NewDecoder(bytes.NewReader(text))
	type object struct {
		keys map[string]bool // nil: a list
		key  bool            // a key comes next
	}
	var in []object
	for {
		tok, err := dec.Token()
		if err != nil {
			return ""
		}
		top := len(in) - 1
		switch d, _ := tok.(json.Delim); {
		case d == '}' || d == ']':
			in = in[:top]
			continue
		case top >= 0 && in[top].key:
			key, _ := tok.(string)
			if in[top].keys[key] {
				return key
			}
			in[top].keys[key], in[top].key = true, false
			continue
		case top >= 0 && in[top].keys != nil:
			in[top].key = true
		}
		switch tok {
		case json.Delim('{'):
			in = append(in, object{map[string]bool{}, true})
		case json.Delim('['):
			in = append(in, object{})
		}
	}
}
