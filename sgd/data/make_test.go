package data

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gradlab/gradlab/sgd"
)

// Small data made for the tests.

type entry struct {
	name string
	body []byte
}

func idxBytes(dims []int, body []byte) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, body...)
}

// idxPair makes n images of 4×4, all pixels i·step, labelled i mod 10.
func idxPair(n, step int) (x, y []byte) {
	var pix, lab []byte
	for i := range n {
		pix = append(pix, bytes.Repeat([]byte{byte(i * step)}, 16)...)
		lab = append(lab, byte(i%10))
	}
	return idxBytes([]int{n, 4, 4}, pix), idxBytes([]int{n}, lab)
}

func cifarBytes(rec, n int) []byte {
	var b []byte
	for i := range n {
		r := bytes.Repeat([]byte{byte(i)}, rec)
		for k := range rec - cifarPixels {
			r[k] = byte(i % 10)
		}
		b = append(b, r...)
	}
	return b
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zst(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

func tarBytes(files ...entry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.body)), Mode: 0o644, Typeflag: tar.TypeReg})
		w.Write(f.body)
	}
	w.Close()
	return out.Bytes()
}

func zipBytes(files ...entry) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		e, _ := w.Create(f.name)
		e.Write(f.body)
	}
	w.Close()
	return out.Bytes()
}

func uniform(w, h int, c color.Color) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Set(i%w, i/w, c)
	}
	return img
}

func jpegBytes(img image.Image, quality int) []byte {
	var out bytes.Buffer
	jpeg.Encode(&out, img, &jpeg.Options{Quality: quality})
	return out.Bytes()
}

func pngBytes(img image.Image) []byte {
	var out bytes.Buffer
	png.Encode(&out, img)
	return out.Bytes()
}

// webpBytes is a lossless WebP of one colour: each of its five prefix codes has a single
// symbol, so that a pixel takes no bits.
func webpBytes(w, h int, c color.RGBA) []byte {
	var bits []byte
	n := 0
	put := func(v, width int) {
		for k := range width {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>k&1) << (n % 8)
			n++
		}
	}
	put(w-1, 14)
	put(h-1, 14)
	put(0, 1+3+1+1+1) // no alpha, version 0; no transform, no colour cache, one group of codes
	for _, symbol := range []uint8{c.G, c.R, c.B, c.A, 0} {
		put(1, 1) // a simple code
		put(0, 1) // of one symbol
		put(1, 1) // of eight bits
		put(int(symbol), 8)
	}
	chunk := append([]byte{0x2f}, bits...)
	if len(chunk)%2 == 1 {
		chunk = append(chunk, 0)
	}
	out := append([]byte("RIFF"), 0, 0, 0, 0)
	out = append(out, "WEBPVP8L"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(chunk)))
	out = append(out, chunk...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func greyJPEG(w, h int, v uint8) []byte {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = v
	}
	return jpegBytes(img, 90)
}

// cmykJPEG is an 8×8 picture of four components, all at half, as Adobe writes
// them. The Huffman tables are those of a grey JPEG; each component's block is
// "DC category 0" (00) and "end of block" (1010).
func cmykJPEG() []byte {
	plain := greyJPEG(8, 8, 128)
	out := []byte{0xff, 0xd8, 0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0}
	for i := 2; plain[i+1] != 0xda; {
		n := 2 + int(plain[i+2])<<8 + int(plain[i+3])
		switch plain[i+1] {
		case 0xdb, 0xc4:
			out = append(out, plain[i:i+n]...)
		case 0xc0:
			out = append(out, 0xff, 0xc0, 0, 20, 8, 0, 8, 0, 8, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0)
		}
		i += n
	}
	out = append(out, 0xff, 0xda, 0, 14, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0)
	return append(out, 0x28, 0xa2, 0x8a, 0xff, 0xd9)
}

// pictures is an image folder of two classes with an odd one of every sort.
func pictures() []entry {
	red, blue := jpegBytes(uniform(32, 32, color.RGBA{200, 0, 0, 255}), 75), pngBytes(uniform(32, 32, color.RGBA{0, 0, 200, 255}))
	return []entry{
		{"set/train/b/0.jpg", red},
		{"set/train/a/images/0.JPEG", blue}, // a PNG called JPEG
		{"set/train/a/images/1.JPEG", greyJPEG(32, 32, 77)},
		{"set/train/b/1.jpeg", cmykJPEG()}, // 8×8: scaled up
		{"set/val/images/x.JPEG", red},
		{"set/val/images/y.JPEG", blue},
		{"set/val/val_annotations.txt", []byte("x.JPEG\tb\t0\t0\t1\t1\ny.JPEG\ta\t0\t0\t1\t1\n")},
		{"set/test/images/z.JPEG", blue}, // unlabelled: not used
		{"set/words.txt", []byte("nothing of interest")},
		{"../set/train/a/evil.jpg", blue},
		{"set/train/a/._0.jpg", []byte("resource fork")},
	}
}

// put writes files below a new folder, which it returns.
func put(t testing.TB, files ...entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		p := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, f.body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, spec string, o Options) sgd.Dataset {
	t.Helper()
	ds, err := Open(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func batch(t testing.TB, s sgd.Source, first uint64, n int) sgd.Batch {
	t.Helper()
	var b sgd.Batch
	if err := s.Batch(sgd.Draw{First: first, N: n}, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

var grey = color.RGBA{90, 90, 90, 255}
