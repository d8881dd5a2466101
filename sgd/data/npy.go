package data

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// NPY is arrays as NumPy saves them (numpy.save, format 1 to 3): a folder with
// X.npy and y.npy, of which a share is the test set, or with X_train.npy,
// y_train.npy, X_test.npy and y_test.npy.
//
// X has the samples in its first dimension: (n, features), (n, height, width), or
// pictures of several channels in the given order. Its numbers are bool, whole numbers
// of 8 to 64 bits, float16, float32 or float64; y holds whole numbers from 0, one a
// sample. Arrays are in C order.
type NPY struct {
	Path  string  `doc:"folder with X.npy and y.npy, or X_train.npy, y_train.npy, X_test.npy, y_test.npy; below --data-dir, or as it is"`
	Test  float64 `doc:"share of each class that is the test set, where it has no files of its own"`
	Order string  `doc:"of pictures with channels: chw, channels first, or hwc, channels last"`
	Scale string  `doc:"standard: mean 0, deviation 1 by feature or channel of the training samples; none: as they are"`
}

var _ = Sets.Add("npy", "your own NumPy arrays: X.npy and y.npy of a folder", NPY{Test: 0.2, Order: "chw", Scale: "standard"})

// Validate checks the options.
func (s NPY) Validate() error {
	if s.Order != "chw" && s.Order != "hwc" {
		return fmt.Errorf("option \"order\": want chw or hwc, not %q", s.Order)
	}
	return checkOwn(s.Test, s.Scale)
}

func (NPY) own() {}

// Open reads the arrays into memory. There is nothing to augment. Errors name the
// file.
func (s NPY) Open(o Options) (sgd.Dataset, error) {
	train, test, notes, err := s.tables(o)
	var ds sgd.Dataset
	if err == nil {
		ds, err = serve(train, test, s.Scale, o, notes...)
	}
	if err != nil {
		return ds, fmt.Errorf("data: npy: %s", strings.TrimPrefix(err.Error(), "data: npy: "))
	}
	return ds, nil
}

// tables reads both parts, and notes channels at the other end.
func (s NPY) tables(o Options) (train, test *unscaled, notes []string, err error) {
	dir, err := ownPath("npy", s.Path, o)
	if err != nil {
		return nil, nil, nil, err
	}
	if at, err := os.Stat(dir); err == nil && !at.IsDir() {
		return nil, nil, nil, fmt.Errorf("%s is a file; path names the folder of X.npy and y.npy: path=%s", dir, filepath.Dir(s.Path))
	}
	if exists(filepath.Join(dir, "X_train.npy")) {
		if train, err = s.pair(dir, "_train"); err == nil {
			test, err = s.pair(dir, "_test")
		}
	} else if train, err = s.pair(dir, ""); err == nil {
		train, test = train.split(s.Test)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if note := s.orderNote(train.sh); note != "" {
		notes = append(notes, note)
	}
	return train, test, notes, nil
}

// orderNote notes pictures that look as if their channels lay at the other end.
func (s NPY) orderNote(sh sgd.Shape) string {
	const most = 4 // channels of pictures
	other := sh.W
	if s.Order == "hwc" {
		other = sh.H
	}
	if sh.C <= most || other > most {
		return ""
	}
	return fmt.Sprintf("with order=%s a sample has %d channels of %d×%d; if these are pictures of %s, say order=%s",
		s.Order, sh.C, sh.H, sh.W, count(other, "channel"), map[string]string{"chw": "hwc", "hwc": "chw"}[s.Order])
}

// pair reads X and y of one part.
func (s NPY) pair(dir, part string) (*unscaled, error) {
	var arrays [2]*array
	paths := [2]string{filepath.Join(dir, "X"+part+".npy"), filepath.Join(dir, "y"+part+".npy")}
	for i, p := range paths {
		b, err := regular.ReadFile(p, regular.Any)
		if err != nil {
			return nil, err
		}
		if arrays[i], err = parseNPY(b); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	x, y := arrays[0], arrays[1]
	t := &unscaled{}
	var err error
	if t.sh, err = s.shapeOf(x.dims); err != nil {
		return nil, fmt.Errorf("%s: %w", paths[0], err)
	}
	n := x.dims[0]
	if len(y.dims) == 0 || y.dims[0] != n || y.len != n {
		return nil, fmt.Errorf("%s: shape %v, want a label for each of the %d samples of %s", paths[1], y.dims, n, filepath.Base(paths[0]))
	}
	for i := range n {
		v := y.at(i)
		if v != math.Trunc(v) || v < 0 || v >= maxClasses {
			return nil, fmt.Errorf("%s: label %d is %v; want whole numbers from 0 to %d", paths[1], i, v, maxClasses-1)
		}
		t.y = append(t.y, int32(v))
		t.cls = max(t.cls, int(v)+1)
	}
	dim, plane := t.sh.Len(), t.sh.H*t.sh.W
	t.row = func(i int, to []float64) {
		for k := range to {
			to[k] = x.at(i*dim + k)
		}
	}
	if s.Order == "hwc" && len(x.dims) == 4 { // stored row by row, channels last
		t.row = func(i int, to []float64) {
			for k := range to {
				to[k%t.sh.C*plane+k/t.sh.C] = x.at(i*dim + k)
			}
		}
	}
	return t, nil
}

// maxClasses bounds what labels say of the number of classes.
const maxClasses = 1 << 20

func (s NPY) shapeOf(dims []int) (sh sgd.Shape, err error) {
	switch {
	case len(dims) == 2:
		sh = sgd.Shape{C: 1, H: 1, W: dims[1]}
	case len(dims) == 3:
		sh = sgd.Shape{C: 1, H: dims[1], W: dims[2]}
	case len(dims) == 4 && s.Order == "chw":
		sh = sgd.Shape{C: dims[1], H: dims[2], W: dims[3]}
	case len(dims) == 4:
		sh = sgd.Shape{C: dims[3], H: dims[1], W: dims[2]}
	default:
		return sh, fmt.Errorf("shape %v, want (samples, features), (samples, height, width) or pictures with channels", dims)
	}
	return sh, nil
}

// array is an array of NumPy.
type array struct {
	dims []int
	len  int                 // numbers in it
	at   func(i int) float64 // one of them, in C order
}

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([0-9,\sL]*)\)`) // Python 2 writes 10L
)

// npyTypes reads one number of each type, by its letter and size.
var npyTypes = map[string]func(o binary.ByteOrder, b []byte) float64{
	"f2": func(o binary.ByteOrder, b []byte) float64 { return half(o.Uint16(b)) },
	"f4": func(o binary.ByteOrder, b []byte) float64 { return float64(math.Float32frombits(o.Uint32(b))) },
	"f8": func(o binary.ByteOrder, b []byte) float64 { return math.Float64frombits(o.Uint64(b)) },
	"u1": func(_ binary.ByteOrder, b []byte) float64 { return float64(b[0]) },
	"b1": func(_ binary.ByteOrder, b []byte) float64 { return float64(b[0]) },
	"i1": func(_ binary.ByteOrder, b []byte) float64 { return float64(int8(b[0])) },
	"u2": func(o binary.ByteOrder, b []byte) float64 { return float64(o.Uint16(b)) },
	"i2": func(o binary.ByteOrder, b []byte) float64 { return float64(int16(o.Uint16(b))) },
	"u4": func(o binary.ByteOrder, b []byte) float64 { return float64(o.Uint32(b)) },
	"i4": func(o binary.ByteOrder, b []byte) float64 { return float64(int32(o.Uint32(b))) },
	"u8": func(o binary.ByteOrder, b []byte) float64 { return float64(o.Uint64(b)) },
	"i8": func(o binary.ByteOrder, b []byte) float64 { return float64(int64(o.Uint64(b))) },
}

// half is the value of a float16.
func half(b uint16) float64 {
	sign, exp, frac := 1-2*float64(b>>15), int(b>>10&31), float64(b&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac > 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// parseNPY reads an array. Nothing is allocated by what the header says.
func parseNPY(b []byte) (*array, error) {
	a, err := npyHeader(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if strings.HasPrefix(a.typ, ">") {
		order = binary.BigEndian
	}
	read, each, body := npyTypes[strings.TrimLeft(a.typ, "<>|=")], int(a.typ[len(a.typ)-1]-'0'), b[a.at:]
	return &array{dims: a.dims, len: len(body) / each, at: func(i int) float64 { return read(order, body[i*each:]) }}, nil
}

// npyHeader reads the header at the beginning of a file of size bytes, which b
// holds as far as it is needed.
func npyHeader(b []byte, whole int64) (*ndarray, error) {
	if len(b) < 10 || string(b[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("not an array as numpy.save writes it")
	}
	size, at := int(binary.LittleEndian.Uint16(b[8:])), 10
	if b[6] >= 2 {
		if len(b) < 12 {
			return nil, fmt.Errorf("header cut off at %d bytes", len(b))
		}
		size, at = int(binary.LittleEndian.Uint32(b[8:])), 12
	}
	if b[6] < 1 || b[6] > 3 || size < 0 || size > len(b)-at {
		return nil, fmt.Errorf("format %d.%d with a header of %d bytes in a file of %d; want format 1 to 3, whole", b[6], b[7], size, whole)
	}
	header, body := b[at:at+size], whole-int64(at+size)
	descr, fortran, shape := npyDescr.FindSubmatch(header), npyFortran.FindSubmatch(header), npyShape.FindSubmatch(header)
	if descr == nil || fortran == nil || shape == nil {
		return nil, fmt.Errorf("header %q: want a plain type, fortran_order and a shape", header)
	}
	a := &ndarray{typ: string(descr[1]), at: int64(at + size)}
	if npyTypes[strings.TrimLeft(a.typ, "<>|=")] == nil {
		return nil, fmt.Errorf("type %q: want bool, whole numbers of 8 to 64 bits, float16, float32 or float64; X.astype(numpy.float32) makes one", a.typ)
	}
	each := int64(a.typ[len(a.typ)-1] - '0')
	if string(fortran[1]) == "True" {
		return nil, fmt.Errorf("the array is in Fortran order; save numpy.ascontiguousarray(X)")
	}
	want := int64(1)
	for _, w := range strings.FieldsFunc(string(shape[1]), func(r rune) bool { return r == ',' || r == ' ' }) {
		d, err := strconv.Atoi(strings.TrimSuffix(w, "L"))
		if err != nil || d < 1 || want > body/each/int64(d) {
			return nil, fmt.Errorf("shape (%s) of type %s promises other than the %d bytes behind the header", shape[1], a.typ, body)
		}
		a.dims, want = append(a.dims, d), want*int64(d)
	}
	if want*each != body {
		return nil, fmt.Errorf("shape (%s) of type %s promises %d bytes, there are %d", shape[1], a.typ, want*each, body)
	}
	return a, nil
}
