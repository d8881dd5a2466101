package data

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd"
)

// pixels is a picture as red, green and blue, pixel by pixel.
func pixels(img image.Image) []byte {
	box := img.Bounds()
	rgba := image.NewRGBA(image.Rect(0, 0, box.Dx(), box.Dy()))
	draw.Draw(rgba, rgba.Bounds(), img, box.Min, draw.Src)
	var out []byte
	for i := 0; i < len(rgba.Pix); i += 4 {
		out = append(out, rgba.Pix[i:i+3]...)
	}
	return out
}

// archived is the files of a zip by name.
func archived(t testing.TB, archive string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	content := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if content[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return content
}

// likePIL fails where a picture of an archive that testdata/pictures.py wrote has other
// pixels than PIL's: at all, but for JPEGs, whose colours PIL interpolates.
func likePIL(t *testing.T, archive string) {
	t.Helper()
	content := archived(t, archive)
	tried := 0
	for name, want := range content {
		name, ok := strings.CutSuffix(name, ".rgb")
		if !ok {
			continue
		}
		tried++
		img, err := decodeImage(content[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := pixels(img)
		if box := img.Bounds(); box.Dx() != int(want[0]) || box.Dy() != int(want[1]) || len(got) != len(want)-2 {
			t.Errorf("%s: %v, want %d×%d", name, box, want[0], want[1])
			continue
		}
		most, sum := 0, 0
		for i, v := range want[2:] {
			d := int(got[i]) - int(v)
			most, sum = max(most, d, -d), sum+max(d, -d)
		}
		mean := float64(sum) / float64(len(got))
		if strings.HasSuffix(name, ".jpg") && mean > 4 || !strings.HasSuffix(name, ".jpg") && most > 0 {
			t.Errorf("%s: pixels differ from PIL's by up to %d, by %.2f in the mean", name, most, mean)
		}
	}
	if tried < 40 {
		t.Errorf("%d pictures", tried)
	}
}

// Pixels are those of PIL's convert("RGB"), as PIL 13 with libwebp 1.6 gave them.
func TestPixelsAreThoseOfPIL(t *testing.T) {
	t.Parallel()
	likePIL(t, filepath.Join("testdata", "pictures.zip"))
}

// The same by the PIL of this machine, which also writes the pictures.
func TestPixelsAreThoseOfThisPIL(t *testing.T) {
	t.Parallel()
	python, archive := program.Python(t, "PIL"), filepath.Join(t.TempDir(), "pictures.zip")
	if out, err := exec.Command(python, "-W", "ignore", filepath.Join("testdata", "pictures.py"), archive).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	likePIL(t, archive)
}

// Of 16 bits of grey the upper 8 count, where PIL cuts all above 255 off; colours that were
// multiplied by alpha are divided by it.
func TestPixelsBesidePIL(t *testing.T) {
	t.Parallel()
	grey := image.NewGray16(image.Rect(0, 0, 2, 1))
	grey.SetGray16(0, 0, color.Gray16{0x1234})
	grey.SetGray16(1, 0, color.Gray16{0xfe01})
	img, err := decodeImage(pngBytes(grey))
	if err != nil || !bytes.Equal(pixels(img), []byte{0x12, 0x12, 0x12, 0xfe, 0xfe, 0xfe}) {
		t.Errorf("%v, %v", img, err)
	}
	half := image.NewRGBA(image.Rect(0, 0, 1, 1))
	copy(half.Pix, []byte{100, 50, 0, 128})
	if got := pixels(colours(half)); !bytes.Equal(got, []byte{199, 99, 0}) {
		t.Errorf("%v of half transparent 199, 99, 0", got)
	}
}

// What is not read, or would be read wrongly, says what it is.
func TestPicturesThatAreRefused(t *testing.T) {
	t.Parallel()
	animated := append([]byte("RIFF\x40\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x07\x00\x00\x07\x00\x00"), make([]byte, 64)...)
	var plain bytes.Buffer
	if err := tiff.Encode(&plain, uniform(4, 4, color.RGBA{1, 2, 3, 255}), nil); err != nil {
		t.Fatal(err)
	}
	tagged := func(slot int, tag, value uint16) []byte {
		b := bytes.Clone(plain.Bytes())
		e := b[int(binary.LittleEndian.Uint32(b[4:]))+2:][12*slot:]
		if tag == tiffFillOrder { // in place of the number of samples, once what is between is moved
			copy(e[12:], e[:12])
		}
		binary.LittleEndian.PutUint16(e, tag)
		binary.LittleEndian.PutUint16(e[2:], 3)
		binary.LittleEndian.PutUint32(e[4:], 1)
		binary.LittleEndian.PutUint16(e[8:], value)
		return b
	}
	for want, b := range map[string][]byte{
		"an animated WebP":      animated,
		"PlanarConfiguration 2": tagged(10, tiffPlanar, 2),
		"FillOrder 2":           tagged(5, tiffFillOrder, 2),
		"neither JPEG, PNG, WebP, GIF, BMP nor TIFF; it begins with \"\\x00\\x00\\x00\\x1cftypavif\"": []byte("\x00\x00\x00\x1cftypavif"),
	} {
		if _, err := decodeImage(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := decodeImage(plain.Bytes()); err != nil {
		t.Error(err)
	}
	files := []entry{{"set/a/0.webp", animated}, {"set/a/1.webp", animated}, {"set/b/0.webp", animated}, {"set/b/1.webp", animated}}
	ds := open(t, "pictures(path=set,size=8)", Options{Dir: put(t, files...)})
	var b sgd.Batch
	if err := ds.Train.Batch(sgd.Draw{N: 1}, &b); err == nil || !strings.Contains(err.Error(), ".webp: an animated WebP") {
		t.Error(err)
	}
}

// Pictures of all forms are found by name or by their bytes; of others is said how many
// of which ending there are.
func TestFormsOfPictures(t *testing.T) {
	t.Parallel()
	encode := func(f func(io.Writer, image.Image) error) []byte {
		var out bytes.Buffer
		if err := f(&out, uniform(8, 8, color.RGBA{200, 40, 90, 255})); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	tif := encode(func(w io.Writer, m image.Image) error { return tiff.Encode(w, m, nil) })
	flat := encode(func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) })
	jpg := jpegBytes(uniform(8, 8, grey), 90)
	files := []entry{{"set/a/0.png", shade(0)}, {"set/a/1.gif", flat}, {"set/a/2.TIF", tif}, {"set/a/3.tiff", tif}, {"set/a/4.jfif",
		jpg}, {"set/a/5.jpe", jpg},
		{"set/b/6.bmp", encode(bmp.Encode)}, {"set/b/7.webp", webpBytes(8, 8, grey)}, {"set/b/8", flat}, {"set/b/9.dat", tif},
		{"set/b/10.avif", []byte("\x00\x00\x00\x1cftypavif")}, {"set/b/11.pgm", []byte("P5 1 1 255 x")}, {"set/b/12.PGM",
			[]byte("P5 1 1 255 x")}, {"set/notes", []byte("words")}}
	for what, dir := range map[string]string{"folder": put(t, files...), "tar": put(t, entry{"set", tarBytes(files...)}), "zip": put(t,
		entry{"set", zipBytes(files...)})} {
		ds := open(t, "pictures(path=set,size=8)", Options{Dir: dir})
		if n := ds.Train.Len() + ds.Test.Len(); n != 10 || !strings.HasSuffix(ds.Note, "files left out: 2 .pgm, 1 .avif, 1 without an ending") {
			t.Errorf("%s: %d pictures, %q", what, n, ds.Note)
		}
		batch(t, ds.Train, 0, ds.Train.Len())
		batch(t, ds.Test, 0, ds.Test.Len())
	}
	_, err := Open("pictures(path=set,size=8)", Options{Dir: put(t, entry{"set", tarBytes(files[10:]...)})})
	refused(t, err, []string{"set: 0 pictures; looked for JPEG, PNG, WebP, GIF, BMP and TIFF", "shards of a WebDataset",
		"files left out: 2 .pgm, 1 .avif, 1 without an ending"})
	_, err = Open("imagenet(size=8)", Options{Dir: put(t, entry{"imagenet/train/a/0.png", shade(1)}, entry{"imagenet/val/a/0.heic",
		[]byte("heic")})})
	refused(t, err, []string{"no pictures under both", "looked for", "1 .heic"})
}

// FuzzPicture: whatever bytes come, they are decoded or refused, and memory is bounded by
// what so many bytes can hold.
func FuzzPicture(f *testing.F) {
	for name, b := range archived(f, filepath.Join("testdata", "pictures.zip")) {
		if !strings.HasSuffix(name, ".rgb") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := decodeImage(b)
		if err == nil && !plausible(img.Bounds().Dx(), img.Bounds().Dy(), len(b)) {
			t.Fatalf("%v of %d bytes", img.Bounds(), len(b))
		}
	})
}
