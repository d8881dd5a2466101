package wire

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gradlab/gradlab/compress"
)

// Sizes holds how long the payloads of a run were, and what its exchanges asked
// for, wherever a codec does not claim that before: one series of numbers for each
// codec instance, in the order of its steps. A job with weights notes them, and one
// without takes them up again; see Content.
type Sizes struct {
	mu     sync.Mutex
	series map[string]*Series
	noted  atomic.Int64 // numbers in all series
}

// Series is what one codec instance needed, step by step.
type Series struct {
	of *Sizes
	n  []uint32
}

// mostNoted bounds the memory that a record of sizes takes, in numbers of four
// bytes.
const mostNoted = 1 << 25

// Whole says whether the sizes of all steps are there. A run of very many steps,
// ranks and tensors has more of them than are kept.
func (s *Sizes) Whole() bool { return s.noted.Load() <= mostNoted }

// Len is how many numbers are held.
func (s *Sizes) Len() int { return int(min(s.noted.Load(), mostNoted)) }

// Of finds the series of an instance, which it makes if need be. A nil Sizes has
// none.
func (s *Sizes) Of(name string) *Series {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series == nil {
		s.series = map[string]*Series{}
	}
	if s.series[name] == nil {
		s.series[name] = &Series{of: s}
	}
	return s.series[name]
}

// note adds numbers to a series. Those of one series come one behind the other.
func (s *Series) note(n ...uint32) {
	if s == nil || s.of.noted.Add(int64(len(n))) > mostNoted {
		return
	}
	s.n = append(s.n, n...)
}

// NoteOp adds what an exchange asks for.
func (s *Series) NoteOp(op compress.Op) {
	if s == nil {
		return
	}
	s.note(uint32(op.Kind))
	switch op.Kind {
	case compress.OpSum, compress.OpMax:
		s.note(uint32(op.Wire), uint32(len(op.Floats)))
	case compress.OpGather:
		s.note(uint32(len(op.Bytes)))
	case compress.OpScatter:
		s.note(uint32(len(op.Slices)))
		for _, b := range op.Slices {
			s.note(uint32(len(b)))
		}
	}
}

// Cursor reads a series from its beginning.
type Cursor struct {
	s  *Series
	at int
}

// Cursor reads the series of an instance from its beginning.
func (s *Sizes) Cursor(name string) Cursor { return Cursor{s: s.Of(name)} }

var errNoSizes = errors.New("the record of payload sizes ends before the run does")

func (c *Cursor) next() (int, error) {
	if c.s == nil || c.at >= len(c.s.n) {
		return 0, errNoSizes
	}
	c.at++
	return int(c.s.n[c.at-1]), nil
}

// Op reads what an exchange of so many ranks asks for next, as NoteOp wrote it.
func (c *Cursor) Op(ranks int) (a Ask, err error) {
	read := func() (n int) {
		if err == nil {
			n, err = c.next()
		}
		return n
	}
	kind := read()
	switch a.Kind = compress.OpKind(kind); a.Kind {
	case compress.OpNone:
	case compress.OpSum, compress.OpMax:
		wire := read()
		if wire >= len(Formats) {
			return a, fmt.Errorf("sizes of payloads are damaged: wire format %d", wire)
		}
		a.Wire, a.N = compress.Wire(wire), read()
	case compress.OpGather:
		a.N = read()
		a.N += lengthOf(a.N)
	case compress.OpScatter:
		if n := read(); err == nil && n != ranks {
			return a, fmt.Errorf("sizes of payloads are of %d ranks, not %d", n, ranks)
		}
		for range ranks {
			size := read()
			a.Slices = append(a.Slices, size+lengthOf(size))
		}
	default:
		return a, fmt.Errorf("sizes of payloads are damaged: operation %d", kind)
	}
	return a, err
}

// sizesMagic begins a file of sizes, before compression.
const sizesMagic = "gradlab sizes 1\n"

// WriteTo writes the sizes compactly: behind a line with the format's name, for
// every series in the order of their names, its name and its numbers as differences
// from the one before, all as varints, and all of it through gzip.
func (s *Sizes) WriteTo(w io.Writer) (int64, error) {
	var counted counter
	z := gzip.NewWriter(io.MultiWriter(w, &counted))
	b := bufio.NewWriter(z)
	_, _ = b.WriteString(sizesMagic) // an error stays, and comes out of Flush
	s.mu.Lock()
	defer s.mu.Unlock()
	var tmp []byte
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		n := s.series[name].n
		if len(n) == 0 {
			continue
		}
		tmp = binary.AppendUvarint(tmp[:0], uint64(len(name)))
		tmp = append(tmp, name...)
		tmp = binary.AppendUvarint(tmp, uint64(len(n)))
		last := int64(0)
		for _, x := range n {
			tmp = binary.AppendVarint(tmp, int64(x)-last)
			last = int64(x)
		}
		_, _ = b.Write(tmp)
	}
	if err := b.Flush(); err != nil {
		return int64(counted), err
	}
	return int64(counted), z.Close()
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// ReadSizes reads what WriteTo wrote. What is damaged is an error.
func ReadSizes(r io.Reader) (*Sizes, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("sizes of payloads: %w", err)
	}
	b := bufio.NewReader(z)
	magic := make([]byte, len(sizesMagic))
	if _, err := io.ReadFull(b, magic); err != nil || string(magic) != sizesMagic {
		return nil, fmt.Errorf("sizes of payloads: this is no %q", sizesMagic[:len(sizesMagic)-1])
	}
	s := &Sizes{}
	for {
		l, err := binary.ReadUvarint(b)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil || l > 1<<16 {
			return nil, fmt.Errorf("sizes of payloads are damaged: a name of %d bytes (%v)", l, err)
		}
		name := make([]byte, l)
		if _, err := io.ReadFull(b, name); err != nil {
			return nil, fmt.Errorf("sizes of payloads are damaged: %w", err)
		}
		n, err := binary.ReadUvarint(b)
		if err != nil || n > mostNoted {
			return nil, fmt.Errorf("sizes of payloads are damaged: %d numbers (%v)", n, err)
		}
		to, last := s.Of(string(name)), int64(0)
		for range n {
			d, err := binary.ReadVarint(b)
			if last += d; err != nil || last < 0 || last > 1<<32-1 {
				return nil, fmt.Errorf("sizes of payloads are damaged: a size of %d (%v)", last, err)
			}
			to.note(uint32(last))
		}
	}
}
