package data

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// files of testdata/parquet, by the beginning of their names.
func parquetFiles(t testing.TB, prefix string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "parquet", prefix+"*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = b
	}
	return out
}

// pets is a table as people write it: pictures and labels under any names.
type petRow[L any] struct {
	Image []byte `parquet:"image"`
	Label L      `parquet:"label"`
}

// petsOf is a table with these labels.
func petsOf[L any](t *testing.T, labels ...L) []byte {
	var rows []petRow[L]
	for i, l := range labels {
		rows = append(rows, petRow[L]{shade(i), l})
	}
	return parquetBytes(t, rows, 5)
}

// openPets opens one file.
func openPets(t *testing.T, b []byte) (classes, samples int, err error) {
	t.Helper()
	ds, err := Open("pictures(path=p.parquet,size=8,test=0.5)", Options{Dir: put(t, entry{"p.parquet", b})})
	if err != nil {
		return 0, 0, err
	}
	return ds.Train.Sample().Classes, ds.Train.Len() + ds.Test.Len(), nil
}

// What pyarrow writes, packed and encoded in every way that is read, is one set: picture i
// is a grey of 5·i and has label i mod 3.
func TestParquetOfArrow(t *testing.T) {
	t.Parallel()
	for name, b := range parquetFiles(t, "arrow-") {
		tr, err := openTree(put(t, entry{"p.parquet", b}), true, "", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(tr.files) != 30 {
			t.Errorf("%s: %d pictures", name, len(tr.files))
		}
		for i := range tr.files {
			f := &tr.files[i]
			raw, err := tr.read(f)
			if err != nil {
				t.Fatal(err)
			}
			img, err := decodeImage(raw)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r, _, _, _ := img.At(0, 0).RGBA(); int(r>>8) != i*5%256 {
				t.Errorf("%s: picture %d is a grey of %d", name, i, r>>8)
			}
			if want := []string{fmt.Sprint(i % 3), []string{"cat", "dog", "eel"}[i%3], fmt.Sprint(i%3 > 0)}; !slices.Contains(want, f.class) {
				t.Errorf("%s: picture %d is of class %s, want one of %v", name, i, f.class, want)
			}
		}
		tr.Close()
	}
}

// Labels may be numbers, bools and names, under several names of columns. What they are
// else is named, with the columns that there are.
func TestParquetLabels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b       []byte
		classes int
	}{
		"names that differ by a slash": {petsOf(t, "a/b", "a_b", "a%2Fb", "a/b", "a_b", "a%2Fb"), 3},
		"bools":                        {petsOf(t, true, false, true, false), 2},
		"doubles":                      {petsOf(t, 0., 1, 2, 0, 1, 2), 3},
		"floats":                       {petsOf[float32](t, 0, 1, 0, 1), 2},
		"int32":                        {petsOf[int32](t, 0, 1, 0, 1), 2},
	} {
		if classes, n, err := openPets(t, c.b); err != nil || classes != c.classes || n != 2*c.classes {
			t.Errorf("%s: %d pictures of %d classes, %v", name, n, classes, err)
		}
	}
	type cls struct {
		Image []byte `parquet:"image"`
		Cls   int64  `parquet:"cls"`
	}
	if classes, _, err := openPets(t, parquetBytes(t, []cls{{shade(0), 0}, {shade(1), 1}, {shade(2), 0}, {shade(3), 1}}, 9)); err != nil || classes != 2 {
		t.Errorf("cls: %d classes, %v", classes, err)
	}
	type optional struct {
		Image picture `parquet:"image"`
		Label *int64  `parquet:"label,optional"`
	}
	one, two := int64(1), int64(2)
	type lists struct {
		Image  []byte  `parquet:"image"`
		Labels []int64 `parquet:"labels,list"`
	}
	type other struct {
		Image   []byte `parquet:"image"`
		Species string `parquet:"species"`
	}
	for name, c := range map[string]struct {
		b    []byte
		want []string
	}{
		"null":         {parquetBytes(t, []optional{{picture{shade(0), ""}, &one}, {picture{shade(1), ""}, nil}, {picture{shade(2), ""}, &two}}, 9), []string{`row 1: column "label" is null`}},
		"NaN":          {petsOf(t, 0., 1, math.NaN()), []string{`row 2: column "label" is NaN`}},
		"a fraction":   {petsOf(t, 0, 0.5, 1), []string{`row 1: column "label" is 0.5; want whole numbers`}},
		"negative":     {petsOf[int64](t, 0, 1, -7), []string{`row 2: column "label" is -7`}},
		"empty":        {petsOf(t, "a", "", "b"), []string{`row 1: column "label" is an empty text`}},
		"lists":        {parquetBytes(t, []lists{{shade(0), []int64{1}}}, 9), []string{`column "labels" holds no labels`, `"labels" (list of int64)`, `"image" (bytes)`}},
		"another name": {parquetBytes(t, []other{{shade(0), "cat"}}, 9), []string{"no column of labels: looked for one called label, labels", `"species" (text)`}},
	} {
		_, _, err := openPets(t, c.b)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		refused(t, err, append(c.want, "p.parquet"))
	}
}

// The column that is named as a picture is one, wherever it stands; two are refused; of a
// table without any it is said what was looked for.
func TestParquetColumns(t *testing.T) {
	t.Parallel()
	type annotated struct {
		Annotation picture `parquet:"annotation"`
		Image      picture `parquet:"image"`
		Label      int64   `parquet:"label"`
	}
	type bare struct {
		Mask  picture `parquet:"a_mask"`
		Photo []byte  `parquet:"Photo"`
		Label int64   `parquet:"label"`
	}
	type twice struct {
		Image []byte  `parquet:"image"`
		Jpg   picture `parquet:"jpg"`
		Label int64   `parquet:"label"`
	}
	type structures struct {
		Left, Right picture
		Label       int64 `parquet:"label"`
	}
	type links struct {
		Image string `parquet:"image"`
		Label int64  `parquet:"label"`
	}
	tr, err := openTree(put(t, entry{"a.parquet", parquetBytes(t, []annotated{{picture{shade(7), "a"}, picture{shade(1), "b"}, 3}}, 9)},
		entry{"b.parquet", parquetBytes(t, []bare{{picture{shade(7), "a"}, shade(1), 3}}, 9)}), true, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if len(tr.files) != 2 {
		t.Fatalf("%d pictures", len(tr.files))
	}
	for i := range tr.files {
		if b, err := tr.read(&tr.files[i]); err != nil || !bytes.Equal(b, shade(1)) || tr.files[i].class != "3" {
			t.Errorf("%s holds another picture, of class %s: %v", tr.files[i].name, tr.files[i].class, err)
		}
	}
	type numbers struct {
		X, Label float64
	}
	for name, c := range map[string]struct {
		b    []byte
		want []string
	}{
		"two names":      {parquetBytes(t, []twice{{shade(1), picture{shade(2), ""}, 1}}, 9), []string{`two columns of pictures, "image" and "jpg"`}},
		"two structures": {parquetBytes(t, []structures{{picture{shade(1), ""}, picture{shade(2), ""}, 1}}, 9), []string{`two columns of pictures, "Left" and "Right"`}},
		"paths":          {parquetBytes(t, []links{{"a.png", 1}}, 9), []string{"no column of pictures: looked for one of bytes", `"image" (text)`}},
		"numbers":        {parquetBytes(t, []numbers{{1, 2}}, 9), []string{"called image, img, picture", `"X" (double)`, `"Label" (double)`, "0 pictures"}},
	} {
		_, _, err := openPets(t, c.b)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		refused(t, err, append(c.want, "p.parquet"))
	}
	ds := open(t, "pictures(path=set,size=8,test=0.5)", Options{Dir: put(t, entry{"set/a.parquet", petsOf[int64](t, 0, 1, 0, 1)}, entry{"set/notes.parquet", parquetBytes(t, []numbers{{1, 2}}, 9)})})
	if !strings.Contains(ds.Note, "left out: notes.parquet: no column of pictures") {
		t.Errorf("note %q", ds.Note)
	}
}

// costs is how many bytes are allocated while f runs.
func costs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// mostOfFuzz bounds what reading a file of fuzzing may allocate.
const mostOfFuzz = 64 << 20

// What a file says of its rows, pages, runs and packed bytes costs no memory before it is
// known that it holds them.
func TestParquetClaims(t *testing.T) {
	files := parquetFiles(t, "")
	for name, b := range files {
		if strings.HasPrefix(name, "arrow") {
			continue
		}
		dir := put(t, entry{"set/train-0.parquet", b})
		if n := costs(func() {
			if tr, err := openTree(dir, true, "", nil); err == nil {
				t.Errorf("%s was read", name)
				tr.Close()
			}
		}); n > 4<<20 {
			t.Errorf("%s: %d bytes of memory for a file of %d", name, n, len(b))
		}
	}
	// Every byte of whole files says something else in turn.
	for name, b := range files {
		if !strings.HasPrefix(name, "arrow") {
			continue
		}
		for k := 0; k < len(b); k += 7 {
			broken := slices.Clone(b)
			broken[k] ^= 0xff
			if n := costs(func() { readParquet(broken) }); n > mostOfFuzz {
				t.Fatalf("%s, byte %d: %d bytes of memory", name, k, n)
			}
		}
	}
}

// readParquet reads a file from memory, as far as that goes.
func readParquet(b []byte) {
	pf, err := openParquet(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	image, label, err := pf.pictureColumns()
	if err != nil {
		return
	}
	none := func(int64) error { return nil }
	_ = pf.groups([]int{image, label}, func(chunks []chunk) error {
		for _, c := range chunks {
			if err := pf.each(c, none, func(cell) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

// An LZ4 block is read to no more than it should have; what is no block is refused.
func TestLZ4(t *testing.T) {
	t.Parallel()
	block := []byte{0x1f, 'a', 1, 0, 200, 0x50, 'b', 'c', 'd', 'e', 'f'} // a, 219 times more, then five
	want := append(bytes.Repeat([]byte("a"), 220), "bcdef"...)
	if b, err := unpackLZ4(make([]byte, 0, len(want)), block); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := unpackLZ4(make([]byte, 0, len(want)-1), block); err == nil {
		t.Errorf("more than there is room for: %d bytes", len(b))
	}
	for i := 1; i < len(block); i++ {
		b, err := unpackLZ4(make([]byte, 0, len(want)), block[:i])
		if err == nil && len(b) == len(want) {
			t.Errorf("%d of %d bytes are a whole block", i, len(block))
		}
	}
}

// FuzzParquet: a file that says anything is read, left out or refused, in 64 MiB.
func FuzzParquet(f *testing.F) {
	rows := []row{{picture{shade(1), "a"}, 1}, {picture{shade(2), "b"}, 0}, {picture{nil, "c"}, -1}}
	f.Add(parquetBytes(f, rows, 2))
	f.Add(parquetBytes(f, rows[:1], 2))
	f.Add(slices.Concat([]byte("PAR1"), make([]byte, 40), []byte("PAR1")))
	f.Add(slices.Concat([]byte("PAR1"), make([]byte, 40), []byte("\xff\xff\xff\xffPAR1")))
	for _, b := range parquetFiles(f, "") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := put(t, entry{"set/train-0.parquet", b})
		if n := costs(func() {
			if tr, err := openTree(dir, true, "", nil); err == nil {
				defer tr.Close()
				_, _, _ = tr.imageFolder(0.5)
			}
		}); n > mostOfFuzz {
			t.Fatalf("%d bytes of memory for a file of %d", n, len(b))
		}
	})
}
