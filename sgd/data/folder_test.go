package data

import (
	"bytes"
	"image/color"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/gradlab/gradlab/sgd"
)

// TestOpenPictures reads the same folder in every packing: a PNG called JPEG, a
// grey and a CMYK picture, labels in a text, entries that climb out.
func TestOpenPictures(t *testing.T) {
	t.Parallel()
	tree := tarBytes(pictures()...)
	loose := slices.DeleteFunc(pictures(), func(e entry) bool { return strings.HasPrefix(e.name, "..") })
	for i := range loose {
		loose[i].name = "cifar10/" + loose[i].name
	}
	var hash uint64
	for name, files := range map[string][]entry{
		"folder":  loose,
		"tar":     {{"cifar10/a.tar", tree}},
		"tar.gz":  {{"cifar-10.tar.gz", gz(tree)}},
		"tar.zst": {{"cifar10/a.tar.zst", zst(tree)}},
		"zip":     {{"cifar10.zip", zipBytes(pictures()...)}},
	} {
		ds, err := Open("cifar10", Options{Dir: put(t, files...)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ds.Train.Len() != 4 || ds.Test.Len() != 2 || ds.Train.Sample().Classes != 2 || ds.Train.Sample().Shape != cifarShape {
			t.Fatalf("%s: %d + %d of %s", name, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
		}
		if y := batch(t, ds.Test, 0, 2).Y; y[0] != 1 || y[1] != 0 {
			t.Errorf("%s: test labels %v", name, y)
		}
		if hash != 0 && hash != ds.Hash {
			t.Errorf("%s: another hash", name)
		}
		if !strings.Contains(ds.Note, "2 classes instead of 10") {
			t.Errorf("%s: note %q", name, ds.Note)
		}
		hash = ds.Hash
		m := ds.Train.(*source).samples.(*held).images
		for i, want := range [][3]int{{0, 0, 200}, {77, 77, 77}, {200, 0, 0}, {64, 64, 64}} {
			for c := range 3 {
				if got := int(m.pix[i*cifarPixels+c*1024+500]); got < want[c]-3 || got > want[c]+3 {
					t.Errorf("%s: picture %d channel %d is %d, want %d", name, i, c, got, want[c])
				}
			}
		}
		if !slices.Equal(m.label, []int32{0, 0, 1, 1}) {
			t.Errorf("%s: labels %v", name, m.label)
		}
	}
}

func TestJPEGQualityIsNoted(t *testing.T) {
	t.Parallel()
	files := pictures()
	ds := open(t, "cifar10", Options{Dir: put(t, entry{"cifar10/a.tar", tarBytes(files[0], entry{"set/val/b/x.jpg", files[0].body})})})
	if !strings.Contains(ds.Note, "JPEGs of quality 75") {
		t.Errorf("note %q", ds.Note)
	}
	for _, q := range []int{30, 50, 75, 90, 100} {
		if got := jpegQuality(jpegBytes(uniform(8, 8, grey), q)); got < q-2 || got > q+2 {
			t.Errorf("quality %d estimated as %d", q, got)
		}
	}
	if jpegQuality([]byte("\xff\xd8\xff\xdb\xff")) != 0 || jpegQuality(nil) != 0 {
		t.Error("a quality from nothing")
	}
}

func TestPictureErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func([]entry) []entry{
		filepath.FromSlash("a.tar/set/train/b/0.jpg"): func(f []entry) []entry { f[0].body = f[0].body[:200]; return f },
		"1.JPEG": func(f []entry) []entry { f[2].body = []byte("not a picture"); return f },
		"y.JPEG: no class for it: \"c\" is none of the 2": func(f []entry) []entry {
			f[6].body = bytes.ReplaceAll(f[6].body, []byte("\ta"), []byte("\tc"))
			return f
		},
		"x.JPEG: no class for it":        func(f []entry) []entry { f[6].body = nil; return f },
		"no pictures under both train/":  func(f []entry) []entry { return f[:4] },
		"nothing in it is recognised as": func(f []entry) []entry { return []entry{{"x/y", []byte("z")}} },
	} {
		_, err := Open("cifar10", Options{Dir: put(t, entry{"cifar10/a.tar", tarBytes(change(pictures())...)})})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
}

func TestHostilePicturesAreRefusedEarly(t *testing.T) {
	t.Parallel()
	huge := pngBytes(uniform(4, 4, grey))
	copy(huge[16:], []byte{0, 0, 0x7f, 0xff, 0, 0, 0x7f, 0xff}) // 32767×32767
	if _, err := decodeImage(huge); err == nil {
		t.Error("a tiny PNG of a thousand megapixels passes")
	}
	big := greyJPEG(8, 8, 1)
	at := bytes.Index(big, []byte{0xff, 0xc0})
	copy(big[at+5:], []byte{0x40, 0, 0x40, 0})
	if _, err := decodeImage(big); err == nil || !strings.Contains(err.Error(), "16384×16384") {
		t.Errorf("a tiny JPEG of 16384×16384: %v", err)
	}
}

// Splits and classes may be links to folders elsewhere; the set is that of the folders
// themselves. No folder is walked twice, nor one in which the set lies.
func TestLinksOfSplitsAreFollowed(t *testing.T) {
	t.Parallel()
	picture := pngBytes(uniform(4, 4, grey))
	far := put(t, entry{"one/a/0.png", picture}, entry{"one/a/1.png", picture}, entry{"b/2.png", picture}, entry{"other/a/3.png", picture}, entry{"other/a/labels.txt", []byte("no")})
	dir := t.TempDir()
	link := func(to, name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(far, "other"), "imagenet/val")
	link(filepath.Join(far, "one", "a"), "imagenet/train/a")
	link(filepath.Join(far, "b"), "imagenet/train/b")
	link(filepath.Join(far, "b"), "imagenet/train/c")  // again
	link(dir, "imagenet/train/d")                      // round and round
	link(string(filepath.Separator), "imagenet/test")  // all there is
	link(filepath.Join(far, "one"), "imagenet/spare")  // no split
	link(filepath.Join(far, "nowhere"), "imagenet/e")  // nothing
	link("../../imagenet/train/a", "imagenet/train/f") // a name of what is there
	ds := open(t, "imagenet", Options{Dir: dir})
	plain := put(t, entry{"imagenet/train/a/0.png", picture}, entry{"imagenet/train/a/1.png", picture}, entry{"imagenet/train/b/2.png", picture}, entry{"imagenet/val/a/3.png", picture})
	if want := open(t, "imagenet", Options{Dir: plain}); ds.Hash != want.Hash || ds.Train.Len() != 3 || ds.Test.Len() != 1 {
		t.Errorf("%d + %d samples, hash %x; of the folders themselves %d + %d, %x", ds.Train.Len(), ds.Test.Len(), ds.Hash, want.Train.Len(), want.Test.Len(), want.Hash)
	}
	if found := open(t, "imagenet", Options{Dir: filepath.Join(dir, "imagenet")}); found.Hash != ds.Hash {
		t.Error("the folder itself is another set")
	}
}

// Links of other folders, and of files, do not leave the set's folder.
func TestLinksDoNotLeaveTheFolder(t *testing.T) {
	t.Parallel()
	outside := put(t, entry{"pictures/a/0.png", pngBytes(uniform(4, 4, grey))})
	dir := put(t, entry{"imagenet/val/a/0.png", pngBytes(uniform(4, 4, grey))})
	for to, name := range map[string]string{"pictures": "more", "pictures/a/0.png": "val/a/1.png"} {
		if err := os.Symlink(filepath.Join(outside, to), filepath.Join(dir, "imagenet", name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open("imagenet", Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "2 symbolic links") {
		t.Error(err)
	}
}

// A WebP and a bitmap are pictures as others are, whatever they are called.
func TestWebPAndBMP(t *testing.T) {
	t.Parallel()
	var bitmap bytes.Buffer
	if err := bmp.Encode(&bitmap, uniform(8, 8, color.RGBA{200, 40, 90, 255})); err != nil {
		t.Fatal(err)
	}
	web := webpBytes(8, 8, color.RGBA{200, 40, 90, 255})
	png := pngBytes(uniform(8, 8, color.RGBA{200, 40, 90, 255}))
	sample := func(name string, b []byte) []float32 {
		t.Helper()
		ds := open(t, "imagenet(size=8)", Options{Dir: put(t, entry{"imagenet/train/a/" + name, b}, entry{"imagenet/train/b/x.png", png}, entry{"imagenet/val/a/" + name, b})})
		var batch sgd.Batch
		if err := ds.Test.Batch(sgd.Draw{N: 1}, &batch); err != nil {
			t.Fatal(name, err)
		}
		return batch.X
	}
	want := sample("0.png", png)
	for name, b := range map[string][]byte{"0.bmp": bitmap.Bytes(), "0.webp": web, "1.WEBP": web, "0.jpg": web, "2.JPEG": bitmap.Bytes()} {
		if got := sample(name, b); !slices.Equal(got, want) {
			t.Errorf("%s differs from the PNG of its pixels", name)
		}
	}
	for _, b := range [][]byte{web, bitmap.Bytes()} {
		for cut := range b {
			if _, err := decodeImage(b[:cut]); err == nil && cut < len(b)-8 {
				t.Errorf("%d of %d bytes pass", cut, len(b))
			}
		}
	}
}

func TestImageNet(t *testing.T) {
	t.Parallel()
	var files []entry
	for i := range 12 {
		img := uniform(40+i, 60-i, grey)
		files = append(files, entry{"Data/CLS-LOC/train/n" + string(rune('0'+i%3)) + "/x" + string(rune('a'+i)) + ".JPEG", jpegBytes(img, 90)})
	}
	files = append(files, entry{"Data/CLS-LOC/val/V1.JPEG", files[0].body}, entry{"Data/CLS-LOC/val/V2.JPEG", files[1].body},
		entry{"LOC_val_solution.csv", []byte("ImageId,PredictionString\nV2,n1 1 2 3 4 \nV1,n2 85 1 499 272 \n")})
	dir := put(t, entry{"imagenet/all.tar", tarBytes(files...)})
	loose := put(t, files...)
	named := filepath.Join(t.TempDir(), "ImageNet")
	if err := os.Rename(loose, named); err != nil {
		t.Fatal(err)
	}
	loose = named
	o := Options{Dir: dir, Seed: 5, Augment: true}
	ds := open(t, "imagenet(size=16)", o)
	o.Dir = loose
	same := open(t, "imagenet(size=16)", o)
	if ds.Hash != same.Hash || ds.Train.Len() != 12 || ds.Test.Len() != 2 || ds.Train.Sample().Classes != 3 || ds.Train.Sample().Shape != (sgd.Shape{C: 3, H: 16, W: 16}) {
		t.Fatalf("%d + %d of %s, hashes %x %x", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape, ds.Hash, same.Hash)
	}
	if y := batch(t, ds.Test, 0, 2).Y; y[0] != 2 || y[1] != 1 {
		t.Errorf("test labels %v", y)
	}
	whole := batch(t, ds.Train, 3, 20)
	for i := range 20 {
		one := batch(t, same.Train, 3+uint64(i), 1)
		if one.Y[0] != whole.Y[i] || !slices.Equal(one.X, whole.X[i*768:(i+1)*768]) {
			t.Fatalf("sample %d depends on the batch or the packing", i)
		}
	}
	if _, err := Open("imagenet", Options{Dir: put(t, entry{"imagenet/all.tar.gz", gz(tarBytes(files...))})}); err == nil || !strings.Contains(err.Error(), "unpack it") {
		t.Errorf("a compressed tar: %v", err)
	}
	os.WriteFile(filepath.Join(loose, "Data/CLS-LOC/train/n0/xa.JPEG"), []byte("gone bad"), 0o644)
	var b sgd.Batch
	if err := same.Train.Batch(sgd.Draw{N: 12}, &b); err == nil || !strings.Contains(err.Error(), "xa.JPEG") {
		t.Errorf("a picture gone bad: %v", err)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	o := Options{Dir: put(t, entry{"cifar10/a.tar.zst", zst(tarBytes(pictures()...))}), Cache: t.TempDir(), KeepDecoded: true}
	first := open(t, "cifar10", o)
	files, _ := filepath.Glob(filepath.Join(o.Cache, "decoded", "*"))
	if len(files) != 1 || filepath.Ext(files[0]) != ".shard" {
		t.Fatal(files)
	}
	b, _ := os.ReadFile(files[0])
	l, ok := readDecoded(filepath.Dir(files[0]), strings.TrimSuffix(filepath.Base(files[0]), ".shard"))
	if !ok || digest(l.parts[:]...) != first.Hash {
		t.Fatal("the decoded set does not read back")
	}
	for _, damage := range [][]byte{b[:len(b)-1], b[:30], nil, append(bytes.Clone(b[:len(b)-1]), b[len(b)-1]+1)} {
		os.WriteFile(files[0], damage, 0o644)
		again := open(t, "cifar10", o)
		if again.Hash != first.Hash || again.Note != first.Note {
			t.Error("a damaged file changes the data")
		}
		if now, _ := os.ReadFile(files[0]); !bytes.Equal(now, b) {
			t.Error("a damaged file is not replaced")
		}
	}
	if again := open(t, "cifar10", o); again.Hash != first.Hash || again.Note != first.Note {
		t.Error("the decoded set differs from the pictures")
	}
}

// Reading, decoding and checking are told, picture by picture and to the end, also out
// of a packed tar, and so is where the decoded pictures are kept.
func TestOpenTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	var seen []Progress
	tell := func(p Progress) { seen = append(seen, p) }
	// told is the work seen, each word once, after a look at its numbers.
	told := func() string {
		t.Helper()
		var out []string
		last := map[string]Progress{}
		for _, p := range seen {
			what := strings.TrimSpace(p.Doing + " " + path.Join(p.Set, p.File) + " " + p.Unit)
			if p.Note != "" {
				out = append(out, p.Note)
				continue
			}
			was, ok := last[what]
			if !ok {
				out = append(out, what)
			}
			if p.Done < was.Done || p.Done > p.Total || ok && p.Total != was.Total {
				t.Errorf("%s: %d of %d after %d of %d", what, p.Done, p.Total, was.Done, was.Total)
			}
			last[what] = p
		}
		for what, p := range last {
			if p.Done != p.Total || p.Total < 1 {
				t.Errorf("%s ends at %d of %d", what, p.Done, p.Total)
			}
		}
		seen = nil
		return strings.Join(out, "; ")
	}
	cache := t.TempDir()
	kept := "decoded pictures are kept in " + filepath.Join(cache, "decoded") + " for the next time"
	o := Options{Dir: put(t, entry{"cifar10/a.tar.zst", zst(tarBytes(pictures()...))}), Cache: cache, KeepDecoded: true, Progress: tell}
	for _, want := range []string{
		"reading cifar10/a.tar.zst; reading cifar10 pictures; decoding cifar10 pictures; " + kept,
		"reading cifar10/a.tar.zst; reading cifar10 pictures", // kept
	} {
		if _, err := Open("cifar10", o); err != nil {
			t.Fatal(err)
		}
		if got := told(); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	o = Options{Dir: o.Dir, Progress: tell} // keeps nothing
	if _, err := Open("cifar10", o); err != nil {
		t.Fatal(err)
	}
	if got, want := told(), "reading cifar10/a.tar.zst; reading cifar10 pictures; decoding cifar10 pictures"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if _, err := Check("cifar10", o); err != nil {
		t.Fatal(err)
	}
	if got, want := told(), "reading cifar10/a.tar.zst; checking cifar10 pictures"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// A decoded set is mapped from its file, and stays readable when the file is taken
// away and memory is swept.
func TestDecodedSetsAreMapped(t *testing.T) {
	o := Options{Dir: put(t, entry{"cifar10/a.tar.zst", zst(tarBytes(pictures()...))}), Cache: t.TempDir(), KeepDecoded: true}
	first := open(t, "cifar10", o)
	again := open(t, "cifar10", o)
	m := again.Train.(*source).samples.(*held).images
	if runtime.GOOS == "linux" && m.hold == nil {
		t.Error("the file is read, not mapped")
	}
	if err := os.RemoveAll(filepath.Join(o.Cache, "decoded")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
		a, b := batch(t, first.Train, 0, 9), batch(t, again.Train, 0, 9)
		if !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) {
			t.Fatal("mapped samples differ from decoded ones")
		}
	}
}
