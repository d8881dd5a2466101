package data

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/draw"

	"github.com/gradlab/gradlab/sgd"
)

// scene is a picture with structure at every scale.
func scene(w, h, seed int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			a := math.Sin(float64(x+7*seed)/40) + math.Cos(float64(y-3*seed)/23) + 0.2*math.Sin(float64(x*y)/900)
			img.SetRGBA(x, y, color.RGBA{uint8(128 + 50*a), uint8(128 - 40*a), uint8((x + seed*31) * 255 / (w + seed*31)), 255})
		}
	}
	return img
}

// With decode=reduced samples are those of decode=full but for the filter: close to
// them in value, of the same labels and the same crops. What has no reduced form is
// decoded as a whole, to the same bits.
func TestReducedDecodingIsCloseToFull(t *testing.T) {
	t.Parallel()
	var files []entry
	for i := range 12 {
		files = append(files, entry{fmt.Sprintf("imagenette/train/n%d/%02d.JPEG", i%3, i), jpegBytes(scene(300+20*i, 420-15*i, i), 92)})
	}
	small, gone := pngBytes(scene(200, 220, 3)), cmykJPEG()
	files = append(files, entry{"imagenette/train/n0/p.JPEG", small}, entry{"imagenette/train/n1/c.JPEG", gone}, entry{"imagenette/val/n0/v.JPEG", files[0].body})
	dir := put(t, files...)
	for _, size := range []int{24, 64, 128} {
		for _, augment := range []bool{false, true} {
			o := Options{Dir: dir, Seed: 3, Augment: augment}
			full, reduced := open(t, fmt.Sprintf("imagenette(size=%d)", size), o), open(t, fmt.Sprintf("imagenette(size=%d,decode=reduced)", size), o)
			if full.Hash != reduced.Hash {
				t.Error("another hash")
			}
			n, dim := full.Train.Len(), full.Train.Shape().Len()
			a, b := batch(t, full.Train, 0, n), batch(t, reduced.Train, 0, n)
			if !slices.Equal(a.Y, b.Y) {
				t.Fatal("other labels")
			}
			equal := 0
			for i := range n {
				x, y := a.X[i*dim:(i+1)*dim], b.X[i*dim:(i+1)*dim]
				if slices.Equal(x, y) {
					equal++
				}
				sum := 0.0
				for k := range x {
					sum += math.Abs(float64(x[k]-y[k])) * float64(imageNetStd[k*3/dim])
				}
				if mean := 255 * sum / float64(dim); mean > 4 {
					t.Errorf("size %d, augment %v: sample %d differs by %.1f levels on average", size, augment, i, mean)
				}
			}
			if equal < 2 || equal > n/2 {
				t.Errorf("size %d, augment %v: %d of %d samples are the same", size, augment, equal, n)
			}
		}
	}
}

// With decode=full samples are those of image/jpeg and package draw, to the bit: of
// JPEGs that are decoded here, and of those that are left to image/jpeg.
func TestFullDecodingIsThatOfImageJPEG(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Skip("image/jpeg of ", runtime.Version(), " may differ")
	}
	for i, raw := range [][]byte{jpegBytes(scene(300, 220, 1), 92), jpegBytes(scene(97, 131, 2), 60), jpegBytes(uniform(64, 64, color.RGBA{200, 10, 0, 255}), 90), cmykJPEG(), jpegBytes(image.NewGray(image.Rect(0, 0, 70, 50)), 90)} {
		img, err := decodeImage(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, sh := range []sgd.Shape{{C: 3, H: 32, W: 48}, {C: 1, H: 20, W: 20}, {C: 3, H: 64, W: 64}} {
			for _, part := range []image.Rectangle{img.Bounds(), image.Rect(7, 9, 45, 50), image.Rect(0, 0, 64, 64).Intersect(img.Bounds()), image.Rect(33, 11, 64, 49)} {
				if !part.In(img.Bounds()) {
					continue // of the small ones
				}
				got, want := make([]uint8, sh.Len()), make([]uint8, sh.Len())
				if err := decode(raw, sh, func(w, h int) image.Rectangle { return part }, false, got); err != nil {
					t.Fatal(err)
				}
				rgba := image.NewRGBA(image.Rect(0, 0, sh.W, sh.H))
				if part.Dx() == sh.W && part.Dy() == sh.H {
					draw.Draw(rgba, rgba.Bounds(), img, part.Min, draw.Src)
				} else {
					draw.BiLinear.Scale(rgba, rgba.Bounds(), img, part, draw.Src, nil)
				}
				for k, plane := 0, sh.W*sh.H; k < plane; k++ {
					p := rgba.Pix[4*k:]
					if sh.C == 1 {
						want[k] = uint8((299*int(p[0]) + 587*int(p[1]) + 114*int(p[2]) + 500) / 1000)
						continue
					}
					want[k], want[plane+k], want[2*plane+k] = p[0], p[1], p[2]
				}
				if !slices.Equal(got, want) {
					t.Errorf("picture %d, part %v to %v: other bits", i, part, sh)
				}
			}
		}
	}
}

// What image/jpeg refuses is refused, wherever the damage is.
func TestFullDecodingReadsAll(t *testing.T) {
	t.Parallel()
	raw := jpegBytes(scene(300, 220, 1), 92)
	sh := sgd.Shape{C: 3, H: 16, W: 16}
	for _, n := range []int{len(raw) - 1, len(raw) - 40, len(raw) / 2} {
		if err := decode(raw[:n], sh, func(w, h int) image.Rectangle { return image.Rect(0, 0, 40, 40) }, false, make([]uint8, sh.Len())); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(raw))
		}
	}
}

// The reducer takes the smallest size that is no smaller than the sample.
func TestReducerTakesTheSmallestSize(t *testing.T) {
	t.Parallel()
	raw := jpegBytes(scene(640, 480, 1), 90)
	var d reducer
	for _, c := range []struct{ side, crop, scale int }{{224, 448, 2}, {224, 447, 1}, {32, 480, 8}, {100, 400, 4}, {480, 480, 1}} {
		img, part := d.decode(raw, sgd.Shape{C: 3, H: c.side, W: c.side}, func(w, h int) image.Rectangle { return image.Rect(64, 0, 64+c.crop, c.crop) })
		if img == nil || part.Dx() < c.side || part.Dx() > (c.crop+c.scale-1)/c.scale || part.Min.X != 64/c.scale || !part.In(img.Bounds()) {
			t.Errorf("%+v: part %v", c, part)
		}
	}
	cut := raw[:len(raw)/3]
	if img, _ := d.decode(cut, sgd.Shape{C: 3, H: 32, W: 32}, func(w, h int) image.Rectangle { return image.Rect(0, 400, w, h) }); img != nil {
		t.Error("a part behind the end of the data is decoded")
	}
	huge := bytes.Clone(raw)
	at := bytes.Index(huge, []byte{0xff, 0xc0})
	copy(huge[at+5:], []byte{0xff, 0xff, 0xff, 0xff})
	if img, _ := d.decode(huge, sgd.Shape{C: 3, H: 32, W: 32}, func(w, h int) image.Rectangle { return image.Rect(0, 0, w, h) }); img != nil {
		t.Error("a picture of gigabytes is decoded")
	}
}

// BenchmarkPictures is the pictures a core reads, crops and scales: of ImageNet's
// usual size, to 224 and 64, as a whole and reduced.
func BenchmarkPictures(b *testing.B) {
	var files []entry
	for i := range 16 {
		files = append(files, entry{fmt.Sprintf("imagenette/train/n%d/%02d.JPEG", i%3, i), jpegBytes(scene(500, 375, i), 92)})
	}
	files = append(files, entry{"imagenette/val/n0/v.JPEG", files[0].body})
	dir := put(b, files...)
	for _, size := range []int{224, 64} {
		for _, how := range []string{decodeFull, decodeReduced} {
			ds := open(b, fmt.Sprintf("imagenette(size=%d,decode=%s)", size, how), Options{Dir: dir, Seed: 1, Augment: true})
			b.Run(fmt.Sprintf("%d/%s", size, how), func(b *testing.B) {
				var out sgd.Batch
				for i := 0; b.Loop(); i++ {
					if err := ds.Train.Batch(sgd.Draw{First: uint64(i), N: 1}, &out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pictures/s")
			})
		}
	}
}
