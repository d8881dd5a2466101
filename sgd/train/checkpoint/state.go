package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/safetensors"
	"github.com/gradlab/gradlab/sgd"
)

// State is what one rank, or a whole run, must keep over a restart: vectors
// laid out as the parameters are, and opaque bytes, both by name.
type State struct {
	Vectors map[string][]float32 // "param", "opt/momentum", …
	Bytes   map[string][]byte    // "core/0", "codec/3/fc1.weight", …
	Ints    map[string]int64     // "version", "step/2", …

	raw map[string][]byte // vectors of an opened state, not decoded
}

// Renamed is what belongs to a rank, under the names of another one, and what belongs to
// none.
func (s *State) Renamed(from, to int) *State {
	name := func(of string) (string, bool) {
		parts := strings.Split(of, "/")
		for i, p := range parts {
			if n, err := strconv.Atoi(p); err == nil {
				parts[i] = strconv.Itoa(to)
				return strings.Join(parts, "/"), n == from
			}
		}
		return of, true
	}
	out := New()
	copyAs(out.Vectors, s.Vectors, name)
	copyAs(out.Bytes, s.Bytes, name)
	copyAs(out.Ints, s.Ints, name)
	if s.raw != nil {
		out.raw = map[string][]byte{}
		copyAs(out.raw, s.raw, name)
	}
	return out
}

// Mapped is the state with what of makes of its vectors.
func (s *State) Mapped(of func([]float32) []float32) *State {
	out := &State{Vectors: map[string][]float32{}, Bytes: s.Bytes, Ints: s.Ints}
	for name, v := range s.Vectors {
		out.Vectors[name] = of(v)
	}
	for name, b := range s.raw {
		v := make([]float32, len(b)/4)
		f32.FromBytes(v, b)
		out.Vectors[name] = of(v)
	}
	return out
}

func copyAs[T any](dst, src map[string]T, name func(string) (string, bool)) {
	for k, v := range src {
		if as, ok := name(k); ok {
			dst[as] = v
		}
	}
}

// New is a state without anything in it.
func New() *State {
	return &State{Vectors: map[string][]float32{}, Bytes: map[string][]byte{}, Ints: map[string]int64{}}
}

// Encode appends the state as a safetensors file. Vectors of the layout's
// length are written tensor by tensor, as "param/conv1.weight" with its shape,
// so that other programs can read them; pass an empty layout to keep them flat.
func (s *State) Encode(dst []byte, l sgd.Layout) ([]byte, error) {
	f := safetensors.File{Meta: map[string]string{}}
	for _, k := range sortedKeys(s.Vectors) {
		v := s.Vectors[k]
		if len(l.Spans) == 0 || len(v) != l.Size() {
			f.Tensors = append(f.Tensors, tensor(k, v, len(v)))
			continue
		}
		for i, sp := range l.Spans {
			f.Tensors = append(f.Tensors, tensor(k+"/"+sp.Name, l.View(v, i), sp.Rows, sp.Cols))
		}
	}
	for _, k := range sortedKeys(s.Bytes) {
		b := s.Bytes[k]
		f.Tensors = append(f.Tensors, safetensors.Tensor{Name: k, DType: "U8", Shape: []int{len(b)}, Data: b})
	}
	for k, v := range s.Ints {
		f.Meta[k] = strconv.FormatInt(v, 10)
	}
	return f.Encode(dst)
}

// tensor shows v as it is written; where memory looks like that already it is no copy.
func tensor(name string, v []float32, shape ...int) safetensors.Tensor {
	b, ok := f32.Bytes(v)
	if !ok {
		b = f32.AppendBytes(nil, v)
	}
	return safetensors.Tensor{Name: name, DType: "F32", Shape: shape, Data: b}
}

// Decode reads what Encode wrote with the same layout; any other bytes
// give an error. Bytes alias b.
func Decode(b []byte, l sgd.Layout) (*State, error) {
	f, err := safetensors.Decode(b)
	if err != nil {
		return nil, err
	}
	return fromFile(f, l)
}

func fromFile(f *safetensors.File, l sgd.Layout) (*State, error) {
	s := New()
	filled := map[string]int{}
	for _, t := range f.Tensors {
		switch t.DType {
		case "F32":
			name, dst := t.Name, []float32(nil)
			for cut := len(name) - 1; cut > 0 && dst == nil; cut-- { // "param/…" + a span's name
				if name[cut] != '/' {
					continue
				}
				if i := l.Find(name[cut+1:]); i >= 0 && l.Spans[i].Len() == len(t.Data)/4 {
					key := name[:cut]
					if _, begun := filled[key]; !begun {
						if s.Vectors[key] != nil {
							return nil, fmt.Errorf("state: %q is there as a whole and in parts", key)
						}
						s.Vectors[key] = make([]float32, l.Size())
					}
					dst = l.View(s.Vectors[key], i)
					filled[key] += len(dst)
				}
			}
			if dst == nil {
				if s.Vectors[name] != nil {
					return nil, fmt.Errorf("state: %q is there as a whole and in parts", name)
				}
				dst = make([]float32, len(t.Data)/4)
				s.Vectors[name] = dst
			}
			f32.FromBytes(dst, t.Data)
		case "U8":
			s.Bytes[t.Name] = t.Data
		default:
			return nil, fmt.Errorf("state: tensor %q has type %s", t.Name, t.DType)
		}
	}
	for k, n := range filled {
		if n != l.Size() {
			return nil, fmt.Errorf("state: %q holds %d of the model's %d values", k, n, l.Size())
		}
	}
	for k, v := range f.Meta {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("state: %q is %q, want a whole number", k, v)
		}
		s.Ints[k] = n
	}
	return s, nil
}

// Open reads what Encode wrote without a layout, for a rank that takes up its
// own small part of a run's state: vectors stay bytes of b until they are asked for.
func Open(b []byte) (*State, error) {
	f, err := safetensors.Decode(b)
	if err != nil {
		return nil, err
	}
	raw, rest := map[string][]byte{}, f.Tensors[:0]
	for _, t := range f.Tensors {
		if t.DType == "F32" {
			raw[t.Name] = t.Data
		} else {
			rest = append(rest, t)
		}
	}
	f.Tensors = rest
	s, err := fromFile(f, sgd.Layout{})
	if err == nil {
		s.raw = raw
	}
	return s, err
}

// VectorBytes is four for each value of a vector.
func (s *State) VectorBytes() (n int) {
	for _, v := range s.Vectors {
		n += 4 * len(v)
	}
	return n
}

// Merge takes over o's entries.
func (s *State) Merge(o *State) {
	maps.Copy(s.Vectors, o.Vectors)
	maps.Copy(s.Bytes, o.Bytes)
	maps.Copy(s.Ints, o.Ints)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Vector copies the named vector into dst.
func (s *State) Vector(name string, dst []float32) error {
	v, decoded := s.Vectors[name]
	raw, opened := s.raw[name]
	n := len(v) + len(raw)/4
	switch {
	case !decoded && !opened:
		return fmt.Errorf("the checkpoint has no %q", name)
	case n != len(dst):
		return fmt.Errorf("the checkpoint's %q has %d values, want %d", name, n, len(dst))
	case opened:
		f32.FromBytes(dst, raw)
	default:
		copy(dst, v)
	}
	return nil
}

// Has says whether there is a vector of that name.
func (s *State) Has(name string) bool {
	_, decoded := s.Vectors[name]
	_, opened := s.raw[name]
	return decoded || opened
}
