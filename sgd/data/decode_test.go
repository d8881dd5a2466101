package data

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
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

// A sample is the part of the picture that the frame chooses, as package draw scales it,
// channel by channel.
func TestDecodedPartsAreThoseOfDraw(t *testing.T) {
	t.Parallel()
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
				if err := decode(raw, sh, func(w, h int) image.Rectangle { return part }, got); err != nil {
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

// A damaged picture is refused, also where the damage is outside of the part.
func TestDecodingReadsAll(t *testing.T) {
	t.Parallel()
	raw := jpegBytes(scene(300, 220, 1), 92)
	sh := sgd.Shape{C: 3, H: 16, W: 16}
	for _, n := range []int{len(raw) - 1, len(raw) - 40, len(raw) / 2} {
		if err := decode(raw[:n], sh, func(w, h int) image.Rectangle { return image.Rect(0, 0, 40, 40) }, make([]uint8, sh.Len())); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(raw))
		}
	}
}

// BenchmarkPictures is the pictures a core reads, crops and scales: of ImageNet's
// usual size, to 224 and 64.
func BenchmarkPictures(b *testing.B) {
	var files []entry
	for i := range 16 {
		files = append(files, entry{fmt.Sprintf("imagenette/train/n%d/%02d.JPEG", i%3, i), jpegBytes(scene(500, 375, i), 92)})
	}
	files = append(files, entry{"imagenette/val/n0/v.JPEG", files[0].body})
	dir := put(b, files...)
	for _, size := range []int{224, 64} {
		ds := open(b, fmt.Sprintf("imagenette(size=%d)", size), Options{Dir: dir, Seed: 1, Augment: true})
		b.Run(fmt.Sprint(size), func(b *testing.B) {
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
