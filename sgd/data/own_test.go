package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// npyOf writes an array the way numpy.save does.
func npyOf(typ string, dims []int, values []float64) []byte {
	shape := ""
	for _, d := range dims {
		shape += fmt.Sprintf("%d, ", d)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", typ, strings.TrimSuffix(shape, " "))
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	header += "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	b = append(b, header...)
	for _, v := range values {
		switch typ {
		case "<f4":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case ">f4":
			b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case "<f8":
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case "<i8":
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
		case "<i2":
			b = binary.LittleEndian.AppendUint16(b, uint16(int16(v)))
		case "<f2": // whole numbers below 2048, and halves of those below 1024
			k := 0
			for m := math.Abs(v); m != 0 && m < 1024; m *= 2 {
				k++
			}
			h := uint16(math.Abs(v) * math.Ldexp(1, k))
			if h != 0 {
				h = h - 1024 + uint16(25-k)<<10
			}
			if v < 0 {
				h |= 1 << 15
			}
			b = binary.LittleEndian.AppendUint16(b, h)
		case "|u1", "|b1":
			b = append(b, byte(v))
		case "|i1":
			b = append(b, byte(int8(v)))
		default:
			panic(typ)
		}
	}
	return b
}

func store(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestNPYTypes(t *testing.T) {
	t.Parallel()
	values := []float64{1, -2, 3, 0}
	for _, typ := range []string{"<f2", "<f4", ">f4", "<f8", "<i8", "<i2", "|i1"} {
		a, err := parseNPY(npyOf(typ, []int{2, 2}, values))
		if err != nil || !slices.Equal(a.dims, []int{2, 2}) || a.len != 4 {
			t.Errorf("%s: %+v, %v", typ, a, err)
			continue
		}
		for i, v := range values {
			if a.at(i) != v {
				t.Errorf("%s: number %d is %v, want %v", typ, i, a.at(i), v)
			}
		}
	}
}

// Every float16 is the number that IEEE 754 says: written out, the parts of it.
func TestNPYHalf(t *testing.T) {
	t.Parallel()
	for b, want := range map[uint16]float64{0: 0, 1: 0x1p-24, 0x03ff: 1023 * 0x1p-24, 0x0400: 0x1p-14, 0x3c00: 1, 0x3c01: 1 + 0x1p-10, 0xc000: -2, 0x7bff: 65504, 0xfc00: math.Inf(-1)} {
		if got := half(b); got != want {
			t.Errorf("%#x is %v, want %v", b, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) || !math.Signbit(half(0x8000)) {
		t.Error("NaN or -0")
	}
}

// Labels that do not begin at 0 or have gaps, those of the test set alone, and channels at
// the other end are noted.
func TestNPYNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(part string, dims []int, y ...float64) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		store(t, filepath.Join(dir, "X"+part+".npy"), npyOf("<f4", dims, make([]float64, n)))
		store(t, filepath.Join(dir, "y"+part+".npy"), npyOf("<i8", []int{len(y)}, y))
	}
	for want, c := range map[string]struct {
		y       []float64
		dims    []int
		options string
	}{
		"no sample has label 0, of the 4 classes": {[]float64{1, 2, 3, 1, 2, 3}, []int{6, 2}, ""},
		"no sample has label 1, 2, of the 4":      {[]float64{0, 3, 3, 0, 0, 3}, []int{6, 2}, ""},
		"28 channels of 28×1; if these are":       {[]float64{0, 1, 0, 1}, []int{4, 28, 28, 1}, ""},
		"of 3 channels, say order=chw":            {[]float64{0, 1, 0, 1}, []int{4, 3, 8, 8}, ",order=hwc"},
		"":                                        {[]float64{0, 1, 0, 1}, []int{4, 3, 8, 8}, ""},
	} {
		write("", c.dims, c.y...)
		if ds := open(t, "npy(path=.,scale=none"+c.options+")", Options{Dir: dir}); !strings.Contains(ds.Note, want) || want == "" && strings.Contains(ds.Note, "order=") {
			t.Errorf("note %q, want %q", ds.Note, want)
		}
	}
	write("_train", []int{3, 2}, 0, 1, 1)
	write("_test", []int{3, 2}, 0, 4, 4)
	ds := open(t, "npy(path=.)", Options{Dir: dir})
	for _, want := range []string{"the test set alone has 2 samples of class 4", "no sample has label 2, 3, of the 5"} {
		if !strings.Contains(ds.Note, want) {
			t.Errorf("note %q, want %q", ds.Note, want)
		}
	}
}

// A header in NumPy's own layout, filled up to 128 bytes: three numbers of int32.
func TestNPYOfNumPy(t *testing.T) {
	t.Parallel()
	header := fmt.Sprintf("%-117s\n", "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }")
	b := append([]byte("\x93NUMPY\x01\x00v\x00"), header...)
	if len(b) != 128 {
		t.Fatalf("%d bytes", len(b))
	}
	b = append(b, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0)
	old := bytes.Replace(b, []byte("(3,), }"), []byte("(3L,),}"), 1) // Python 2's
	for _, b := range [][]byte{b, old} {
		a, err := parseNPY(b)
		if err != nil || a.len != 3 || a.at(2) != 2 || !slices.Equal(a.dims, []int{3}) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

func TestNPY(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var x, y []float64
	for i := range 50 {
		x = append(x, float64(i), 7, float64(i%5))
		y = append(y, float64(i%5))
	}
	store(t, filepath.Join(dir, "mine", "X.npy"), npyOf("<f8", []int{50, 3}, x))
	store(t, filepath.Join(dir, "mine", "y.npy"), npyOf("<i8", []int{50}, y))
	spec := "npy(path=" + filepath.Join(dir, "mine") + ")"
	ds := open(t, spec, Options{})
	if ds.Train.Len() != 40 || ds.Test.Len() != 10 || ds.Train.Sample().Classes != 5 || ds.Train.Sample().Shape.String() != "1x1x3" {
		t.Fatalf("%d + %d of %s, %d classes", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape, ds.Train.Sample().Classes)
	}
	// Two of ten of each class are the test set; features have mean 0 and deviation 1.
	var count [5]int
	for _, c := range batch(t, ds.Test, 0, 10).Y {
		count[c]++
	}
	if count != [5]int{2, 2, 2, 2, 2} {
		t.Errorf("test classes %v", count)
	}
	b := batch(t, ds.Train, 0, 40)
	for k := range 3 {
		var sum, sq float64
		for i := range 40 {
			v := float64(b.X[3*i+k])
			sum, sq = sum+v/40, sq+v*v/40
		}
		if want := 1.0; k == 1 && sq != 0 || k != 1 && math.Abs(sq-want) > 1e-5 || math.Abs(sum) > 1e-6 {
			t.Errorf("feature %d has mean %g, square %g", k, sum, sq)
		}
	}
	// The same below --data-dir, another split, other contents.
	if other := open(t, "npy(path=mine)", Options{Dir: dir}); other.Hash != ds.Hash || other.Name != "npy(path=mine)" {
		t.Errorf("%s: hash %x, want %x", other.Name, other.Hash, ds.Hash)
	}
	if other := open(t, "npy(path=mine,test=0.5)", Options{Dir: dir}); other.Hash == ds.Hash || other.Test.Len() != 25 {
		t.Errorf("%d test samples, hash %x", other.Test.Len(), other.Hash)
	}
	x[0] = 3
	store(t, filepath.Join(dir, "mine", "X.npy"), npyOf("<f8", []int{50, 3}, x))
	if other := open(t, spec, Options{}); other.Hash == ds.Hash {
		t.Error("other numbers have the same hash")
	}
}

// Pictures keep their shape, and channels come first.
func TestNPYPictures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for part, n := range map[string]int{"train": 4, "test": 2} {
		var x, y []float64
		for i := range n {
			for p := range 6 { // 2 × 3 pixels
				for c := range 2 {
					x = append(x, float64(100*c+10*p+i))
				}
			}
			y = append(y, float64(i%2))
		}
		store(t, filepath.Join(dir, "X_"+part+".npy"), npyOf("<f4", []int{n, 2, 3, 2}, x))
		store(t, filepath.Join(dir, "y_"+part+".npy"), npyOf("|u1", []int{n, 1}, y))
	}
	ds := open(t, "npy(path="+dir+",order=hwc,scale=none)", Options{})
	if ds.Train.Sample().Shape.String() != "2x2x3" || ds.Train.Len() != 4 || ds.Test.Len() != 2 {
		t.Fatalf("%d + %d of %s", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
	}
	got := batch(t, ds.Test, 1, 1)
	if want := []float32{1, 11, 21, 31, 41, 51, 101, 111, 121, 131, 141, 151}; !slices.Equal(got.X, want) || got.Y[0] != 1 {
		t.Errorf("%v of class %d, want %v", got.X, got.Y[0], want)
	}
}

func TestNPYErrors(t *testing.T) {
	t.Parallel()
	x, y := npyOf("<f4", []int{4, 2}, make([]float64, 8)), npyOf("<i8", []int{4}, []float64{0, 1, 0, 1})
	nan := npyOf("<f4", []int{4, 2}, []float64{0, 0, 0, 0, 0, math.NaN(), 0, 0})
	for _, c := range []struct {
		name string
		x, y []byte
		want []string
	}{
		{"no array", []byte("PK\x03\x04 something else"), y, []string{"X.npy", "not an array"}},
		{"cut off", x[:len(x)-1], y, []string{"X.npy", "promises"}},
		{"header cut off", x[:60], y, []string{"X.npy", "format 1.0"}},
		{"Fortran", []byte(strings.Replace(string(x), "False", "True ", 1)), y, []string{"X.npy", "ascontiguousarray"}},
		{"complex", []byte(strings.Replace(string(x), "<f4", "<c8", 1)), y, []string{"X.npy", `type "<c8"`, "astype"}},
		{"objects", []byte(strings.Replace(string(x), "'<f4'", "'|O' ", 1)), y, []string{"X.npy", `type "|O"`}},
		{"huge", []byte(strings.Replace(string(x), "(4, 2,)", "(99999999999999999999,)", 1)), y, []string{"X.npy"}},
		{"one dimension", npyOf("<f4", []int{4}, make([]float64, 4)), y, []string{"X.npy", "shape [4]"}},
		{"labels of another count", x, npyOf("<i8", []int{3}, []float64{0, 1, 0}), []string{"y.npy", "each of the 4 samples"}},
		{"broken label", x, npyOf("<f8", []int{4}, []float64{0, 1, 0.5, 1}), []string{"y.npy", "label 2 is 0.5"}},
		{"negative label", x, npyOf("<i8", []int{4}, []float64{0, -1, 0, 1}), []string{"y.npy", "label 1 is -1"}},
		{"not finite", nan, y, []string{"NaN", "finite"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			store(t, filepath.Join(dir, "X.npy"), c.x)
			store(t, filepath.Join(dir, "y.npy"), c.y)
			_, err := Open("npy(path="+dir+")", Options{})
			refused(t, err, c.want)
		})
	}
	_, err := Open("npy", Options{})
	refused(t, err, []string{"data=npy(path=…)"})
	_, err = Open("npy(path=nowhere)", Options{Dir: t.TempDir()})
	refused(t, err, []string{"nowhere"})
	_, err = Open("npy(path="+t.TempDir()+")", Options{})
	refused(t, err, []string{"X.npy"})
	_, err = Open("npy(path=x,test=1)", Options{})
	refused(t, err, []string{`option "test"`})
	_, err = Locate("npy", Options{})
	refused(t, err, []string{"data=npy(path=…)"})
}

func refused(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message does not say %q: %v", w, err)
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text, options string
		labels        []int32
		x             []float32
	}{
		"first column":    {"1,2,3\n0,4,5\n1,6,7\n0,8,9\n", "", []int32{1, 0, 1, 0}, []float32{2, 3, 4, 5, 6, 7, 8, 9}},
		"header":          {"y,a,b\n1,2,3\n0,4,5\n", "", []int32{1, 0}, []float32{2, 3, 4, 5}},
		"named":           {"a,kind,b\n2,cat,3\n4,dog,5\n6, ant ,7\n", ",label=kind", []int32{1, 2, 0}, []float32{2, 3, 4, 5, 6, 7}},
		"last, numbered":  {"2;3;x\r\n4;5;y\r\n", ",label=3", []int32{0, 1}, []float32{2, 3, 4, 5}},
		"tabs and quotes": {"\"k\"\t\"a,b\"\n\"u v\"\t1\nw\t2\n", "", []int32{0, 1}, []float32{1, 2}},
		"numbers by size": {"10,1\n9,2\n-1,3\n", "", []int32{2, 1, 0}, []float32{1, 2, 3}},
		"byte order mark": {"\ufeffy,a\n1,5\n2,6\n", ",label=y", []int32{0, 1}, []float32{5, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			store(t, filepath.Join(dir, "t.csv"), []byte(c.text))
			ds := open(t, "csv(path=t.csv,test_path=t.csv,scale=none"+withLabel(c.options)+")", Options{Dir: dir})
			b := batch(t, ds.Test, 0, len(c.labels))
			if !slices.Equal(b.Y, c.labels) || !slices.Equal(b.X, c.x) || ds.Test.Len() != len(c.labels) {
				t.Errorf("labels %v, features %v", b.Y, b.X)
			}
		})
	}
	var rows strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rows, "%d,%d\n", i%3, i)
	}
	store(t, filepath.Join(dir, "t.csv"), []byte(rows.String()))
	if ds := open(t, "csv(path=t.csv,label=1)", Options{Dir: dir}); ds.Train.Len() != 24 || ds.Test.Len() != 6 || ds.Train.Sample().Classes != 3 {
		t.Errorf("%d + %d, %d classes", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Classes)
	}
}

func TestCSVErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, options string
		want                []string
	}{
		{"no number", "y,age,town\n1,2,3\n0,4,Rome\n", "", []string{"t.csv:3: column 3 (town)", `"Rome"`}},
		{"no number, no header", "1,2\n0,x\n", "", []string{"t.csv:2: column 2", `"x"`}},
		{"missing", "1,2\n0,\n", "", []string{"t.csv:2", "want a number"}},
		{"not finite", "1,2\n0,inf\n", "", []string{"t.csv:2", `"inf"`}},
		{"NaN", "1,2\n0,nan\n", "", []string{"t.csv:2", `"nan"`}},
		{"label missing", "1,2\n,3\n", "", []string{"t.csv:2: the label"}},
		{"ragged", "1,2\n0,3,4\n", "", []string{"t.csv:2: 3 fields, the first line has 2"}},
		{"quote", "1,2\n0,\"3\n", "", []string{"t.csv:", "\""}},
		{"one column", "1\n2\n", "", []string{"t.csv:1: one column"}},
		{"empty", "", "", []string{"t.csv: no samples"}},
		{"header alone", "y,a\n", "", []string{"t.csv: no samples"}},
		{"no such column", "y,a\n1,2\n", ",label=kind", []string{`there is no column "kind"`, "y, a"}},
		{"no such number", "y,a\n1,2\n", ",label=3", []string{"there is no column 3: want 1 to 2, or -1 for the last"}},
		{"one sample", "1,2\n", "", []string{"no test samples"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			store(t, filepath.Join(dir, "t.csv"), []byte(c.text))
			_, err := Open("csv(path=t.csv"+withLabel(c.options)+")", Options{Dir: dir})
			refused(t, err, c.want)
		})
	}
	dir := t.TempDir()
	store(t, filepath.Join(dir, "a.csv"), []byte("1,2\n0,3\n"))
	store(t, filepath.Join(dir, "b.csv"), []byte("1,2,4\n0,3,4\n"))
	_, err := Open("csv(path=a.csv,test_path=b.csv,label=1)", Options{Dir: dir})
	refused(t, err, []string{"training samples are 1x1x1, test samples 1x1x2"})
	_, err = Open("csv", Options{})
	refused(t, err, []string{"data=csv(path=…)"})
}

// Whatever bytes come, an array is read or refused, and a whole one can be asked
// for each of its numbers.
func FuzzNPY(f *testing.F) {
	f.Add(npyOf("<f4", []int{2, 2}, []float64{1, 2, 3, 4}))
	f.Add(npyOf("|u1", []int{3}, []float64{1, 2, 3}))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"))
	f.Add([]byte("\x93NUMPY\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseNPY(b)
		if err != nil {
			return
		}
		n := 1
		for _, d := range a.dims {
			n *= d
		}
		if n != a.len || a.len > len(b) {
			t.Fatalf("%d numbers of %v in %d bytes", a.len, a.dims, len(b))
		}
		for i := range a.len {
			a.at(i)
		}
	})
}

// Whatever text comes, a table is read or refused with its line; what is read has
// all of its features.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("y,a,b\n1,2,3\n0,4,5\n"), "1")
	f.Add([]byte("a;k\n1;x\n2;\"y\n\"\n"), "k")
	f.Add([]byte("\ufeff1\t2\n"), "2")
	f.Fuzz(func(t *testing.T, b []byte, label string) {
		s, err := parseCSV(b, label, nil)
		if err != nil {
			if !strings.HasPrefix(err.Error(), ":") {
				t.Fatalf("an error without a place: %v", err)
			}
			return
		}
		if len(s.labels) == 0 || len(s.x) != len(s.labels)*len(s.features) {
			t.Fatalf("%d numbers for %d samples of %d", len(s.x), len(s.labels), len(s.features))
		}
		_, _ = parseCSV(b, label, s) // its columns matched to themselves
		y, names := classesOf(s.labels)
		for i, l := range s.labels {
			if names[y[i]] != l && len(names) > 0 {
				t.Fatalf("label %q is numbered as %q", l, names[y[i]])
			}
		}
	})
}
