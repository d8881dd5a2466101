package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gradlab/gradlab/sgd"
)

// shade is the picture of sample i, which can be told from all others.
func shade(i int) []byte {
	return pngBytes(uniform(8, 8, color.RGBA{uint8(i), uint8(255 - i), 7, 255}))
}

// seen is the samples of a source in the order of a whole epoch: by the first value of
// each, which shade tells apart, its label.
func seen(t *testing.T, s sgd.Source) map[float32]int32 {
	t.Helper()
	out := map[float32]int32{}
	var b sgd.Batch
	if err := s.Batch(sgd.Draw{N: s.Len()}, &b); err != nil {
		t.Fatal(err)
	}
	for i := range b.N {
		out[b.X[i*s.Sample().Shape.Len()]] = b.Y[i]
	}
	return out
}

// Class folders alone, in any packing, are split by class, always alike.
func TestClassFolders(t *testing.T) {
	t.Parallel()
	var files []entry
	for i := range 30 {
		files = append(files, entry{fmt.Sprintf("%s/sub/%d.png", []string{"rose", "tulip", "aster"}[i%3], i), shade(i)})
	}
	below := func(dir string) (out []entry) {
		for _, f := range files {
			out = append(out, entry{dir + f.name, f.body})
		}
		return out
	}
	first := map[float32]int32(nil)
	for name, put := range map[string]string{
		"folders": put(t, below("flowers/")...), "deep": put(t, below("flowers/all/of/them/")...), "tar": put(t, entry{"flowers", tarBytes(files...)}),
		"zip": put(t, entry{"flowers", zipBytes(below("x/")...)}), "train alone": put(t, below("flowers/train/")...),
	} {
		ds := open(t, "pictures(path=flowers,size=8,test=0.3)", Options{Dir: put})
		train, test := seen(t, ds.Train), seen(t, ds.Test)
		if ds.Train.Len() != 21 || ds.Test.Len() != 9 || ds.Train.Sample().Classes != 3 || len(train) != 21 || !strings.Contains(ds.Note, "9 pictures are held back for testing") {
			t.Errorf("%s: %d + %d samples, %d classes, %q", name, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Classes, ds.Note)
		}
		each := map[int32]int{}
		for x, y := range test {
			if each[y]++; train[x] != 0 {
				t.Errorf("%s: a test picture is trained on", name)
			}
		}
		if each[0] != 3 || each[1] != 3 || each[2] != 3 {
			t.Errorf("%s: %v test pictures of the classes", name, each)
		}
		if first == nil {
			first = test
		}
		for x, y := range test {
			if y2, ok := first[x]; !ok || y2 != y {
				t.Errorf("%s: another split", name)
				break
			}
		}
	}
	// With a folder for testing nothing is held back.
	ds := open(t, "pictures(path=flowers,size=8)", Options{Dir: put(t, append(below("flowers/train/"), entry{"flowers/val/rose/x.png", shade(99)})...)})
	if ds.Train.Len() != 30 || ds.Test.Len() != 1 || strings.Contains(ds.Note, "held back") {
		t.Errorf("%d + %d samples, %q", ds.Train.Len(), ds.Test.Len(), ds.Note)
	}
	for want, dir := range map[string]string{
		"1 folder of a class": put(t, entry{"flowers/train/rose/1.png", shade(1)}, entry{"flowers/train/rose/2.png", shade(2)}),
		"lies in no folder":   put(t, entry{"flowers/rose/1.png", shade(1)}, entry{"flowers/2.png", shade(2)}),
		"no class has two":    put(t, entry{"flowers/rose/1.png", shade(1)}, entry{"flowers/aster/2.png", shade(2)}),
		"0 pictures; looked for JPEG, PNG, WebP, GIF, BMP and TIFF in folders of classes": put(t, entry{"flowers/readme.txt", []byte("none")}),
		"data=pictures(path=": put(t, entry{"else/1.txt", nil}),
	} {
		spec := "pictures(path=flowers,size=8)"
		if strings.HasPrefix(want, "data=") {
			spec = "pictures"
		}
		if _, err := Open(spec, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// picture and row are a row as Hugging Face's datasets writes it.
type picture struct {
	Bytes []byte `parquet:"bytes"`
	Path  string `parquet:"path"`
}

type row struct {
	Image picture `parquet:"image,optional"`
	Label int64   `parquet:"label"`
}

func parquetBytes[T any](t testing.TB, rows []T, group int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(group), parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(500))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Parquet files of pictures are the set that the pictures are: labels by number, splits by
// name; a test split without labels does no harm where there is another.
func TestParquetPictures(t *testing.T) {
	t.Parallel()
	part := func(from, to int) (out []row) {
		for i := from; i < to; i++ {
			out = append(out, row{picture{shade(i), fmt.Sprint(i, ".png")}, int64(i % 12)})
		}
		return out
	}
	hidden := part(90, 93)
	for i := range hidden {
		hidden[i].Label = -1
	}
	dir := put(t, entry{"hf/data/train-00000-of-00002.parquet", parquetBytes(t, part(0, 25), 10)}, entry{"hf/data/train-00001-of-00002.parquet", parquetBytes(t, part(25, 40), 100)},
		entry{"hf/data/validation-00000-of-00001.parquet", parquetBytes(t, part(50, 60), 3)}, entry{"hf/data/test-00000-of-00001.parquet", parquetBytes(t, hidden, 10)},
		entry{"hf/README.md", []byte("a set")})
	ds := open(t, "pictures(path=hf,size=8)", Options{Dir: dir})
	if ds.Train.Len() != 40 || ds.Test.Len() != 10 || ds.Train.Sample().Classes != 12 {
		t.Fatalf("%d + %d samples of %d classes", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Classes)
	}
	var files []entry
	for i := range 60 {
		split := "train"
		if i >= 50 {
			split = "val"
		}
		if i < 40 || i >= 50 {
			files = append(files, entry{fmt.Sprintf("plain/%s/%02d/%d.png", split, i%12, i), shade(i)})
		}
	}
	want := open(t, "pictures(path=plain,size=8)", Options{Dir: put(t, files...)})
	for p, pair := range [][2]sgd.Source{{ds.Train, want.Train}, {ds.Test, want.Test}} {
		got, plain := seen(t, pair[0]), seen(t, pair[1])
		if len(got) != len(plain) {
			t.Errorf("part %d: %d pictures, want %d", p, len(got), len(plain))
		}
		for x, y := range plain {
			if got[x] != y {
				t.Errorf("part %d: label %d, want %d", p, got[x], y)
			}
		}
	}
	// Bytes without a structure, names for labels, one file without a split.
	type bare struct {
		Img   []byte `parquet:"img"`
		Class string `parquet:"class"`
	}
	var rows []bare
	for i := range 20 {
		rows = append(rows, bare{shade(i), []string{"cat/big", "dog"}[i%2]})
	}
	one := open(t, "pictures(path=pets.parquet,size=8,test=0.25)", Options{Dir: put(t, entry{"pets.parquet", parquetBytes(t, rows, 7)})})
	if one.Train.Len() != 14 || one.Test.Len() != 6 || one.Train.Sample().Classes != 2 {
		t.Errorf("%d + %d samples of %d classes", one.Train.Len(), one.Test.Len(), one.Train.Sample().Classes)
	}
	// A table of numbers is no picture, and a broken file is named.
	type numbers struct {
		X, Label float64
	}
	good := parquetBytes(t, rows, 7)
	for want, b := range map[string][]byte{"0 pictures": parquetBytes(t, []numbers{{1, 2}}, 7), filepath.FromSlash("hf/data/train-0.parquet"): good[:len(good)/2]} {
		if _, err := Open("pictures(path=hf)", Options{Dir: put(t, entry{"hf/data/train-0.parquet", b})}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// A footer that a file says to be longer than itself makes nobody look for 4 GiB.
func TestF15FooterOfParquet(t *testing.T) {
	t.Parallel()
	whole := parquetBytes(t, []row{{picture{shade(1), "a"}, 1}}, 2)
	for size, want := range map[uint32]string{0xffffffff: "a footer of 4294967295 bytes in a file of", uint32(len(whole) - 11): "a footer of", 0: ""} {
		b := slices.Clone(whole)
		if size > 0 {
			binary.LittleEndian.PutUint32(b[len(b)-8:], size)
		}
		tr, err := openTree(put(t, entry{"set/train-0.parquet", b}), true, "", nil)
		if err == nil {
			tr.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a footer of %d bytes, by its word: %v", size, err)
		}
	}
	for _, short := range []string{"PAR1", "PAR1PAR1"} {
		if _, err := openTree(put(t, entry{"set/train-0.parquet", []byte(short)}), true, "", nil); err == nil {
			t.Errorf("%q was taken", short)
		}
	}
}

// A file has no more rows than bytes, whatever its footer says: no list is made for the rest.
func TestF15RowsOfParquet(t *testing.T) {
	t.Parallel()
	whole := parquetBytes(t, []row{{picture{shade(1), "a"}, 1}}, 2)
	end := len(whole) - 8
	footer := whole[end-int(binary.LittleEndian.Uint32(whole[end:])) : end]
	const rows = 1 << 20
	refused := false
	for i := 1; i < len(footer); i++ {
		if footer[i-1] != 0x16 || footer[i] != 2 { // an int64 that is 1, in the compact protocol
			continue
		}
		f := binary.AppendVarint(slices.Clone(footer[:i]), rows)
		f = append(f, footer[i+1:]...)
		b := append(slices.Clone(whole[:end-len(footer)]), f...)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(f))), "PAR1"...)
		if _, err := openParquet(bytes.NewReader(b), int64(len(b))); err != nil && strings.Contains(err.Error(), fmt.Sprintf("%d rows in %d bytes", rows, len(b))) {
			refused = true
		}
	}
	if !refused {
		t.Errorf("no file of %d bytes that says to have %d rows was refused for it", len(whole), rows)
	}
}

// Without splits the folders of classes may be links to folders elsewhere. One that leads
// to what is there already, or to a folder that the set lies in, counts for nothing.
func TestLinksOfClassesAreFollowed(t *testing.T) {
	t.Parallel()
	picture := pngBytes(uniform(4, 4, grey))
	classes := []entry{{"flowers/a/0.png", picture}, {"flowers/a/1.png", picture}, {"flowers/b/0.png", picture}, {"flowers/b/1.png", picture}}
	far, dir := put(t, classes...), put(t, entry{"flowers/readme.txt", []byte("none")})
	for name, to := range map[string]string{"a": filepath.Join(far, "flowers", "a"), "b": filepath.Join(far, "flowers", "b"), "c": dir, "d": filepath.Join(far, "nowhere")} {
		if err := os.Symlink(to, filepath.Join(dir, "flowers", name)); err != nil {
			t.Fatal(err)
		}
	}
	open := func(dir string) sgd.Dataset {
		return open(t, "pictures(path=flowers,size=8,test=0.5)", Options{Dir: dir})
	}
	if got, want := open(dir), open(put(t, classes...)); got.Hash != want.Hash || got.Train.Len() != 2 || got.Test.Len() != 2 {
		t.Errorf("%d + %d samples, hash %x; of the folders themselves %x", got.Train.Len(), got.Test.Len(), got.Hash, want.Hash)
	}
}
