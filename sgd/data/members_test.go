package data

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
)

// member is an entry of an archive: a file, or a link to another name.
type member struct {
	entry
	link byte // tar.TypeLink, tar.TypeSymlink; 0: a file
	to   string
}

func tarOf(t *testing.T, in ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range in {
		h := &tar.Header{Name: m.name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(m.body))}
		if m.link != 0 {
			h.Typeflag, h.Size, h.Linkname = m.link, 0, m.to
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		w.Write(m.body)
	}
	w.Close()
	return out.Bytes()
}

// zipOf packs files and symbolic links; a hard link is a file of the same content, which
// is the last of its name.
func zipOf(t *testing.T, in ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	content := map[string][]byte{}
	for _, m := range in {
		h := &zip.FileHeader{Name: m.name}
		h.SetMode(0o644)
		body := m.body
		switch m.link {
		case tar.TypeSymlink:
			h.SetMode(fs.ModeSymlink | 0o777)
			body = []byte(m.to)
		case tar.TypeLink:
			body = content[m.to]
		}
		content[m.name] = body
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		f.Write(body)
	}
	w.Close()
	return out.Bytes()
}

// unpacked is the folder that members unpack to.
func unpacked(t *testing.T, below string, in ...member) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range in {
		at := filepath.Join(dir, below, filepath.FromSlash(strings.TrimPrefix(m.name, "/")))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Remove(at)
		var err error
		switch m.link {
		case tar.TypeSymlink:
			err = os.Symlink(m.to, at)
		case tar.TypeLink:
			err = os.Link(filepath.Join(dir, below, filepath.FromSlash(m.to)), at)
		default:
			err = os.WriteFile(at, m.body, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An archive is the folder that it unpacks to: hidden folders, links to files and to
// folders, members that are there twice. What is left out is said, with its number.
func TestArchivesAreTheFoldersTheyUnpackTo(t *testing.T) {
	t.Parallel()
	file := func(name string, i int) member { return member{entry: entry{name, shade(i)}} }
	soft := func(name, to string) member { return member{entry: entry{name: name}, link: tar.TypeSymlink, to: to} }
	hard := func(name, to string) member { return member{entry: entry{name: name}, link: tar.TypeLink, to: to} }
	plain := []member{file("set/train/cat/0.png", 0), file("set/train/cat/1.png", 1), file("set/train/dog/2.png", 2),
		file("set/train/dog/3.png", 3),
		file("set/val/cat/4.png", 4), file("set/val/dog/5.png", 5)}
	for what, c := range map[string]struct {
		in          []member
		train, test int
		classes     int
		notes       []string // of archives
	}{
		"plain": {plain, 4, 2, 2, nil},
		"hidden": {append(slices.Clone(plain), file("set/train/.ipynb_checkpoints/0-checkpoint.png", 9),
			file("set/val/.ipynb_checkpoints/4-checkpoint.png", 9),
			file("set/train/cat/._0.png", 9), file("set/.DS_Store", 9)), 4, 2, 2, []string{"4 hidden in an archive"}},
		"links to files": {append(slices.Clone(plain), hard("set/train/cat/6.png", "set/train/cat/0.png"), soft("set/train/dog/7.png",
			"../dog/2.png"),
			soft("set/train/dog/8.png", "7.png"), file("set/.pool/a", 30), soft("set/val/dog/9.png", "../../.pool/a")), 7, 3, 2,
			[]string{"1 hidden in an archive"}},
		"links to folders": {append(slices.Clone(plain[:4]), file("set/far/x/10.png", 10), soft("set/train/fox", "../far/x"),
			file("set/held/cat/11.png", 11), soft("set/val", "held"),
			soft("set/train/wolf", "../far/x"), soft("set/train/here", ".."), soft("set/spare", "far")), 5, 1, 3,
			[]string{"3 linked to folders that are no split and no class, or are there already", "2 in no folder of a split"}},
		"links astray": {append(slices.Clone(plain), soft("set/train/cat/6.png", "/etc/passwd"), soft("set/train/cat/7.png",
			"../../../../x.png"), soft("set/train/cat/8.png", "none.png"),
			soft("set/train/cat/9.png", "9.png")), 4, 2, 2, []string{"2 linked to outside their archive",
			"2 linked to nothing that is read of their archive"}},
		"twice": {append(slices.Clone(plain), file("set/train/cat/0.png", 40)), 4, 2, 2, []string{"1 named twice in an archive"}},
		"other files": {append(slices.Clone(plain), member{entry: entry{"set/train/cat/0.avif", []byte("....ftypavif")}},
			member{entry: entry{"set/README", []byte("words")}}), 4, 2, 2, []string{"1 .avif", "1 without an ending"}},
	} {
		want := open(t, "pictures(path=imagenet,size=8)", Options{Dir: unpacked(t, "imagenet", c.in...)})
		if want.Train.Len() != c.train || want.Test.Len() != c.test || want.Train.Sample().Classes != c.classes {
			t.Errorf("%s: the folder has %d + %d samples of %d classes", what, want.Train.Len(), want.Test.Len(), want.Train.Sample().Classes)
		}
		for pack, b := range map[string][]byte{"tar": tarOf(t, c.in...), "zip": zipOf(t, c.in...)} {
			o := Options{Dir: put(t, entry{"imagenet/a." + pack, b}), Cache: t.TempDir()}
			for _, again := range []bool{false, true} { // from the index
				ds, err := Open("pictures(path=imagenet,size=8)", o)
				if err != nil {
					t.Errorf("%s, %s: %v", what, pack, err)
					break
				}
				sameSet(t, fmt.Sprintf("%s, %s, again %v", what, pack, again), ds, want)
				for _, n := range c.notes {
					if !strings.Contains(ds.Note, n) {
						t.Errorf("%s, %s, again %v: note %q, want %q", what, pack, again, ds.Note, n)
					}
				}
				if c.notes == nil && strings.Contains(ds.Note, "left out") {
					t.Errorf("%s, %s: note %q", what, pack, ds.Note)
				}
			}
		}
	}
}

// Without splits links at the top are classes, as those of a folder are.
func TestLinksOfClassesInAnArchive(t *testing.T) {
	t.Parallel()
	file := func(name string, i int) member { return member{entry: entry{name, shade(i)}} }
	in := []member{file("a/0.png", 0), file("a/1.png", 1), file(".b/2.png", 2), file(".b/3.png", 3), {entry: entry{name: "b"},
		link: tar.TypeSymlink, to: ".b"}}
	want := open(t, "pictures(path=set,size=8,test=0.5)", Options{Dir: unpacked(t, "set", in...)})
	sameSet(t, "tar", open(t, "pictures(path=set,size=8,test=0.5)", Options{Dir: put(t, entry{"set", tarOf(t, in...)})}), want)
}

// Names are those that they are unpacked under, whatever bytes are in them.
func TestNamesOfMembers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"./a/b.png": "a/b.png", "/a//b.png": "a/b.png", "a/../b.png": "", "../b.png": "", "": "",
		"./": "", "caf\xe9/1.png": `caf\xe9/1.png`, "café/1.png": "café/1.png"} {
		got, ok := memberName(name)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", name, got, ok, want)
		}
	}
	in := []entry{{`set\train\cat\0.png`, shade(0)}, {`set\train\dog\1.png`, shade(1)}, {`set\val\cat\2.png`, shade(2)}, {"../out.png",
		shade(3)}}
	ds := open(t, "pictures(path=set.zip,size=8)", Options{Dir: put(t, entry{"set.zip", zipBytes(in...)})})
	if ds.Train.Len() != 2 || ds.Test.Len() != 1 || !strings.Contains(ds.Note, "1 named to climb out of their archive") {
		t.Errorf("%d + %d samples, %q", ds.Train.Len(), ds.Test.Len(), ds.Note)
	}
}

// gnuSparse is the header and the content of a file in GNU's old format of files with
// holes: the zeros from hole on, as many as gap, are left out.
func gnuSparse(name string, b []byte, hole, gap int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	put := func(at, n, v int) { copy(h[at:at+n], fmt.Sprintf("%0*o", n-1, v)) }
	put(100, 8, 0o644)
	put(108, 8, 0)
	put(116, 8, 0)
	put(124, 12, len(b)-gap)
	put(136, 12, 0)
	h[156] = 'S'
	copy(h[257:], "ustar  \x00")
	for i, v := range []int{0, hole, hole + gap, len(b) - hole - gap} {
		put(386+12*i, 12, v)
	}
	put(483, 12, len(b))
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	body := append(slices.Clone(b[:hole]), b[hole+gap:]...)
	return append(append(h, body...), make([]byte, (512-len(body)%512)%512)...)
}

// A member with holes is the file that it unpacks to.
func TestSparseMembers(t *testing.T) {
	t.Parallel()
	img := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 {
		img.Set(i%64, i/64, color.NRGBA{A: 255})
		if y := i / 64; y < 8 || y > 56 {
			img.Set(i%64, y, color.NRGBA{uint8(y), 200, 9, 255})
		}
	}
	var b bytes.Buffer
	if err := bmp.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	hole := bytes.Index(b.Bytes(), make([]byte, 4096))
	files := []entry{{"set/train/a/0.png", shade(1)}, {"set/train/b/1.bmp", b.Bytes()}, {"set/val/a/2.png", shade(2)}}
	packed := slices.Concat(tarBytes(files[0], files[2])[:4*512], gnuSparse(files[1].name, b.Bytes(), hole, 4096), make([]byte, 1024))
	want := open(t, "imagenet(size=8)", Options{Dir: put(t, entry{"imagenet/a.tar", tarBytes(files...)})})
	o := Options{Dir: put(t, entry{"imagenet/a.tar", packed}), Cache: t.TempDir()}
	for range 2 {
		sameSet(t, "sparse", open(t, "imagenet(size=8)", o), want)
	}
	// An archive that is such a member is refused.
	inner := append(tarBytes(files...), make([]byte, 8192)...)
	_, err := Open("imagenet(size=8)", Options{Dir: put(t, entry{"imagenet/a.tar", append(gnuSparse("b.tar", inner, len(inner)-4096,
		4096), make([]byte, 1024)...)})})
	refused(t, err, []string{"b.tar", "sparse"})
}

// FuzzArchive: whatever a tar or a zip holds, it is read, left out or refused.
func FuzzArchive(f *testing.F) {
	in := []entry{{"train/a/0.png", shade(0)}, {"train/b/1.png", shade(1)}, {"val/a/2.png", shade(2)}}
	f.Add(tarBytes(in...))
	f.Add(zipBytes(in...))
	f.Add(shard(0, ".seg.png", "0", "1.0"))
	f.Add(gz(shard(0, "", "0", "1.0")))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{{Name: "a/0.png", Typeflag: tar.TypeReg}, {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"},
		{Name: "a/1.png", Typeflag: tar.TypeLink, Linkname: "a/0.png"},
		{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "c/c"}, {Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: ".."}} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
	}
	w.Close()
	f.Add(out.Bytes())
	f.Add(slices.Concat(gnuSparse("train/a/0.bmp", make([]byte, 9000), 100, 8000), make([]byte, 1024)))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := openTree(put(t, entry{"set/train-0.tar", b}), true, "", nil)
		if err != nil {
			return
		}
		defer tr.Close()
		if len(tr.files) > len(b) {
			t.Fatalf("%d files of %d bytes", len(tr.files), len(b))
		}
		_, _, _ = tr.imageFolder(0.5)
		_ = tr.leftOut()
	})
}
