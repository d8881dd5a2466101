package data

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Pickles, as the Python versions of CIFAR and downsampled ImageNet are packed:
// one dict of numbers, texts, lists and NumPy arrays. A pickle is a program, and
// Python's own reader runs whatever it asks for. This one knows just the
// instructions that such a dict is made of, and the few names that stand for an
// array; any other is refused. Protocols 2 to 5.
//
// The bytes of an array are not read: where they lie is noted, so that a file of
// gigabytes is opened in the time its lists take.

// span is a stretch of bytes of the file, read when needed.
type span struct{ at, n int64 }

// ndarray is a NumPy array in C order.
type ndarray struct {
	typ  string // as in an .npy header, such as "|u1" or "<i8"
	dims []int
	at   int64 // where its bytes lie
}

// Things on the stack besides nil, bool, int64, float64, string, span, []any
// (tuples too), *pyList and *pyDict.
type (
	pyList  struct{ v []any }
	pyDict  struct{ v map[string]any }
	pyName  string               // of a class or function that arrays are made by
	pyMark  struct{}             // begins a sequence
	pyDtype struct{ typ string } // numpy.dtype
	pyArray struct{ ndarray }    // numpy.ndarray, set by a BUILD
	pyRead  struct {             // the machine
		r     *bufio.Reader
		src   *io.SectionReader
		at    int64
		stack []any
		memo  map[uint32]any
	}
)

// Bounds on a pickle: no dict of a data set comes near them.
const (
	pickleText  = 1 << 16 // bytes of a text or a small byte string that is kept
	pickleItems = 1 << 24 // things on the stack, or in the memo
)

// isPickle tells whether head begins a pickled dict, of any protocol.
func isPickle(head []byte) bool {
	if oldPickle(head) {
		return true
	}
	if len(head) < 12 || head[0] != 0x80 || head[1] < 2 || head[1] > 5 {
		return false
	}
	if head = head[2:]; head[0] == 0x95 { // a frame
		head = head[9:]
	}
	return head[0] == '}'
}

// oldPickle tells whether head begins a dict of protocol 0, which is text, or 1: those do
// not say their protocol.
func oldPickle(head []byte) bool {
	return bytes.HasPrefix(head, []byte("(dp")) || len(head) >= 4 && head[0] == '}' && head[1] == 'q' && (head[3] == '(' || head[3] == '.')
}

// errOldPickle refuses such a pickle.
var errOldPickle = errors.New("a pickle of protocol 0 or 1, where 2 to 5 are read: load it in Python and save it by pickle.dump(d, f, protocol=4)")

// pickleNames is what a pickle may ask for by name, and what it stands for.
var pickleNames = map[string]pyName{
	"numpy.core.multiarray _reconstruct":  "array",
	"numpy._core.multiarray _reconstruct": "array",
	"numpy ndarray":                       "ndarray",
	"numpy dtype":                         "dtype",
	"numpy.core.numeric _frombuffer":      "frombuffer",
	"numpy._core.numeric _frombuffer":     "frombuffer",
}

// readPickle reads the dict in the first size bytes of r. Its values are int64,
// float64, bool, nil, string, []any, map[string]any and *ndarray.
func readPickle(r io.ReaderAt, size int64) (map[string]any, error) {
	src := io.NewSectionReader(r, 0, size)
	var head [4]byte
	if n, _ := src.ReadAt(head[:], 0); oldPickle(head[:n]) {
		return nil, errOldPickle
	}
	m := &pyRead{src: src, r: bufio.NewReaderSize(src, 1<<16), memo: map[uint32]any{}}
	for {
		op, err := m.r.ReadByte()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, m.wrap(err)
		}
		m.at++
		if op == '.' {
			break
		}
		if err := m.do(op); err != nil {
			return nil, m.wrap(err)
		}
		if len(m.stack) > pickleItems || len(m.memo) > pickleItems {
			return nil, m.wrap(errors.New("more than 16 million things"))
		}
	}
	top, err := m.pop()
	if err != nil {
		return nil, m.wrap(err)
	}
	d, ok := top.(*pyDict)
	if !ok || len(m.stack) > 0 {
		return nil, m.wrap(errors.New("a pickle of something else than one dict"))
	}
	out := make(map[string]any, len(d.v))
	for k, v := range d.v {
		switch v := v.(type) {
		case *pyList:
			out[k] = v.v
		case *pyArray:
			if v.typ == "" {
				return nil, m.wrap(fmt.Errorf("array %q has no content", k))
			}
			out[k] = &v.ndarray
		default:
			out[k] = v
		}
	}
	return out, nil
}

func (m *pyRead) wrap(err error) error { return fmt.Errorf("pickle, at byte %d: %w", m.at, err) }

func (m *pyRead) push(v any) error { m.stack = append(m.stack, v); return nil }

func (m *pyRead) pop() (any, error) {
	n := len(m.stack)
	if n == 0 {
		return nil, errors.New("the stack is empty")
	}
	v := m.stack[n-1]
	m.stack = m.stack[:n-1]
	return v, nil
}

// marked takes what lies above the last mark.
func (m *pyRead) marked() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(pyMark); ok {
			v := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return v, nil
		}
	}
	return nil, errors.New("no mark")
}

// top takes the n things that lie uppermost.
func (m *pyRead) top(n int) ([]any, error) {
	if len(m.stack) < n {
		return nil, errors.New("the stack is empty")
	}
	v := append([]any(nil), m.stack[len(m.stack)-n:]...)
	m.stack = m.stack[:len(m.stack)-n]
	return v, nil
}

// word reads a little-endian integer of n bytes.
func (m *pyRead) word(n int) (uint64, error) {
	var b [8]byte
	_, err := io.ReadFull(m.r, b[:n])
	m.at += int64(n)
	return binary.LittleEndian.Uint64(b[:]), err
}

// bytes reads n bytes: as a string if they are few, else as a span.
func (m *pyRead) bytes(n uint64, err error) error {
	if err != nil {
		return err
	}
	if n > uint64(m.src.Size()-m.at) {
		return fmt.Errorf("%d bytes are promised, %d are left", n, m.src.Size()-m.at)
	}
	if n > pickleText {
		s := span{m.at, int64(n)}
		m.at += s.n
		if _, err := m.src.Seek(m.at, io.SeekStart); err != nil {
			return err
		}
		m.r.Reset(m.src)
		return m.push(s)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(m.r, b)
	s := small{string(b), m.at}
	m.at += int64(n)
	if err != nil {
		return err
	}
	return m.push(s)
}

// small is a short string and where it lies: it may be the content of a small array.
type small struct {
	s  string
	at int64
}

// sized reads a length of n bytes, then as many bytes.
func (m *pyRead) sized(n int) error { return m.bytes(m.word(n)) }

// line reads up to a line feed.
func (m *pyRead) line() (string, error) {
	s, err := m.r.ReadSlice('\n')
	m.at += int64(len(s))
	if err != nil {
		return "", err
	}
	return string(s[:len(s)-1]), nil
}

// do carries out one instruction.
func (m *pyRead) do(op byte) error {
	switch op {
	case 0x80: // PROTO
		_, err := m.word(1)
		return err
	case 0x95: // FRAME
		_, err := m.word(8)
		return err
	case '(': // MARK
		return m.push(pyMark{})
	case '}':
		return m.push(&pyDict{v: map[string]any{}})
	case ']':
		return m.push(&pyList{})
	case ')':
		return m.push([]any{})
	case 'N':
		return m.push(nil)
	case 0x88, 0x89:
		return m.push(op == 0x88)
	case 'U', 0x8c, 'C':
		return m.sized(1)
	case 'T', 'X', 'B':
		return m.sized(4)
	case 0x8d, 0x8e, 0x96:
		return m.sized(8)
	case 'K', 'M', 'J', 0x8a, 'G':
		return m.number(op)
	case 'q', 'r', 'h', 'j', 0x94:
		return m.remember(op)
	case 'c', 0x93:
		return m.named(op)
	}
	return m.gather(op)
}

// number reads an integer or a float.
func (m *pyRead) number(op byte) error {
	switch op {
	case 'K':
		v, err := m.word(1)
		m.stack = append(m.stack, int64(v))
		return err
	case 'M':
		v, err := m.word(2)
		m.stack = append(m.stack, int64(v))
		return err
	case 'J':
		v, err := m.word(4)
		m.stack = append(m.stack, int64(int32(v)))
		return err
	case 'G':
		var b [8]byte
		_, err := io.ReadFull(m.r, b[:])
		m.at += 8
		m.stack = append(m.stack, math.Float64frombits(binary.BigEndian.Uint64(b[:])))
		return err
	}
	n, err := m.word(1) // LONG1
	if err != nil || n > 8 {
		return errors.Join(err, fmt.Errorf("an integer of %d bytes", n))
	}
	v, err := m.word(int(n))
	shift := 64 - 8*n
	return errors.Join(err, m.push(int64(v<<shift)>>shift))
}

// remember stores the uppermost thing in the memo, or takes one out.
func (m *pyRead) remember(op byte) error {
	if op == 0x94 {
		if len(m.stack) == 0 {
			return errors.New("nothing to remember")
		}
		m.memo[uint32(len(m.memo))] = m.stack[len(m.stack)-1]
		return nil
	}
	n := 1
	if op == 'r' || op == 'j' {
		n = 4
	}
	k, err := m.word(n)
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, ok := m.memo[uint32(k)]
		if !ok {
			return fmt.Errorf("nothing was remembered as %d", k)
		}
		return m.push(v)
	}
	if len(m.stack) == 0 {
		return errors.New("nothing to remember")
	}
	m.memo[uint32(k)] = m.stack[len(m.stack)-1]
	return nil
}

// named pushes what a module's name stands for, if it is one that is known.
func (m *pyRead) named(op byte) error {
	var module, name string
	if op == 'c' {
		var err error
		if module, err = m.line(); err == nil {
			name, err = m.line()
		}
		if err != nil {
			return err
		}
	} else {
		v, err := m.top(2)
		if err != nil {
			return err
		}
		module, name = asText(v[0]), asText(v[1])
	}
	known, ok := pickleNames[module+" "+name]
	if !ok {
		return fmt.Errorf("it asks for %.60q of %.60q; only NumPy arrays are read, and nothing is run", name, module)
	}
	return m.push(known)
}

// text is a string on the stack, "" for anything else.
func asText(v any) string {
	s, _ := v.(small)
	return s.s
}

// gather makes one thing of several.
func (m *pyRead) gather(op byte) error {
	switch op {
	case 't': // TUPLE
		v, err := m.marked()
		if err != nil {
			return err
		}
		return m.push(v)
	case 0x85, 0x86, 0x87:
		v, err := m.top(int(op) - 0x84)
		if err != nil {
			return err
		}
		return m.push(v)
	case 'a', 'e': // APPEND, APPENDS
		items, err := m.items(op == 'a', 1)
		if err != nil {
			return err
		}
		l, ok := m.last().(*pyList)
		if !ok {
			return errors.New("items are added to what is no list")
		}
		if len(l.v)+len(items) > pickleItems {
			return errors.New("a list of more than 16 million items")
		}
		for _, v := range items {
			if s, ok := v.(small); ok {
				v = s.s
			}
			l.v = append(l.v, v)
		}
		return nil
	case 's', 'u': // SETITEM, SETITEMS
		items, err := m.items(op == 's', 2)
		if err != nil {
			return err
		}
		d, ok := m.last().(*pyDict)
		if !ok || len(items)%2 != 0 {
			return errors.New("items are set of what is no dict")
		}
		for i := 0; i < len(items); i += 2 {
			k, ok := items[i].(small)
			if !ok {
				return fmt.Errorf("a key of a dict is no text but %T", items[i])
			}
			v := items[i+1]
			if s, ok := v.(small); ok {
				v = s.s
			}
			d.v[k.s] = v
		}
		return nil
	case 'R':
		return m.reduce()
	case 'b':
		return m.build()
	}
	return fmt.Errorf("instruction %#x is none that a dict of NumPy arrays is made by", op)
}

func (m *pyRead) items(one bool, n int) ([]any, error) {
	if one {
		return m.top(n)
	}
	return m.marked()
}

func (m *pyRead) last() any {
	if len(m.stack) == 0 {
		return nil
	}
	return m.stack[len(m.stack)-1]
}

// reduce makes an array or a type that is not filled in yet.
func (m *pyRead) reduce() error {
	v, err := m.top(2)
	if err != nil {
		return err
	}
	args, _ := v[1].([]any)
	switch v[0] {
	case pyName("array"):
		return m.push(&pyArray{})
	case pyName("dtype"):
		if len(args) == 0 || npyTypes[asText(args[0])] == nil {
			return fmt.Errorf("a type that is no whole number and no float: %.60q", fmt.Sprint(args...))
		}
		return m.push(&pyDtype{asText(args[0])})
	case pyName("frombuffer"):
		if len(args) != 4 || asText(args[3]) != "C" {
			return errors.New("an array that is not in C order; save numpy.ascontiguousarray of it")
		}
		a := &pyArray{}
		if err := a.fill(args[2], args[1], args[0]); err != nil {
			return err
		}
		return m.push(a)
	}
	return errors.New("a call of what is no function of NumPy")
}

// build fills in an array or a type.
func (m *pyRead) build() error {
	v, err := m.pop()
	if err != nil {
		return err
	}
	state, _ := v.([]any)
	switch to := m.last().(type) {
	case *pyDtype:
		if len(state) < 2 {
			return errors.New("a type without its byte order")
		}
		order := asText(state[1])
		if order != "<" && order != ">" && order != "|" || len(to.typ) != 2 {
			return fmt.Errorf("byte order %q", order)
		}
		to.typ = order + to.typ
		return nil
	case *pyArray:
		if len(state) != 5 || state[3] != false {
			return errors.New("an array that is not in C order; save numpy.ascontiguousarray of it")
		}
		return to.fill(state[1], state[2], state[4])
	}
	return errors.New("a state for what is no array")
}

// fill checks shape and type against the bytes.
func (a *pyArray) fill(shape, typ, body any) error {
	t, ok := typ.(*pyDtype)
	if !ok {
		return errors.New("an array without a type")
	}
	var n int64
	switch b := body.(type) {
	case span:
		a.at, n = b.at, b.n
	case small:
		a.at, n = b.at, int64(len(b.s))
	default:
		return errors.New("the content of an array is not given as bytes; save it by numpy.savez")
	}
	dims, ok := shape.([]any)
	if !ok {
		return errors.New("an array without a shape")
	}
	want := int64(t.typ[len(t.typ)-1] - '0')
	a.dims = nil
	for _, d := range dims {
		v, ok := d.(int64)
		if !ok || v < 1 || v > math.MaxInt32 || want > n/v {
			return fmt.Errorf("an array of shape %v in %d bytes", dims, n)
		}
		a.dims, want = append(a.dims, int(v)), want*v
	}
	if want != n {
		return fmt.Errorf("an array of shape %v in %d bytes", dims, n)
	}
	a.typ = t.typ
	return nil
}
