package data

import (
	"fmt"
	"image"
	"image/color"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// Made is a folder with a small set of each format: spec by spec, for the suite, which
// is another package.
func Made(t *testing.T) (dir string, specs []string) {
	bytes := func(name string, n, step int, label func(i int) []byte) (b []byte) {
		for i := range n {
			b = append(b, label(i)...)
			k := rng.New(1, name).With(uint64(i))
			for j := range step {
				b = append(b, byte(k.Uint64(uint64(j))))
			}
		}
		return b
	}
	none := func(int) []byte { return nil }
	digit := func(i int) []byte { return []byte{byte(i * 7 % 10)} }
	var files []entry
	for _, part := range []struct {
		name string
		n    int
	}{{"train", 130}, {"t10k", 40}} {
		var labels []byte
		for i := range part.n {
			labels = append(labels, digit(i)...)
		}
		files = append(files, entry{"mnist/" + part.name + "-images-idx3-ubyte", idxBytes([]int{part.n, 4, 4}, bytes(part.name, part.n, 16, none))},
			entry{"mnist/" + part.name + "-labels-idx1-ubyte", idxBytes([]int{part.n}, labels)})
	}
	files = append(files, entry{"cifar10/data_batch_1.bin", bytes("cifar", 120, cifarPixels, digit)}, entry{"cifar10/test_batch.bin", bytes("test", 30, cifarPixels, digit)})
	for i := range 48 {
		img := image.NewGray(image.Rect(0, 0, 20+i, 40-i/2))
		for p := range img.Pix {
			img.Pix[p] = byte(p * (i + 3) / 40)
		}
		where := "train"
		if i%4 == 0 {
			where = "val"
		}
		files = append(files, entry{fmt.Sprintf("imagenet/%s/n%d/x%d.JPEG", where, i%3, i), jpegBytes(img, 90)})
	}
	for i, c := range []color.Color{color.White, color.Black, color.Gray{90}} {
		files = append(files, entry{fmt.Sprintf("imagenette/imagenette2/train/n%d/a.png", i), pngBytes(uniform(9, 9, c))},
			entry{fmt.Sprintf("imagenette/imagenette2/val/n%d/b.png", i), pngBytes(uniform(9, 8, c))})
	}
	csv := "label,a,b\n"
	for i := range 60 {
		csv += fmt.Sprintf("%d,%d,%d\n", i%3, i, i*i%17)
	}
	files = append(files, entry{"own/own.csv", []byte(csv)}, entry{"own/own.txt", bytes("text", 400, 1, none)})
	for i, c := range files[len(files)-1].body {
		files[len(files)-1].body[i] = 'a' + c%20
	}
	var x, y []float64
	for i := range 90 {
		y = append(y, float64(i%3))
		for j := range 12 {
			x = append(x, float64(i*j%23))
		}
	}
	files = append(files, entry{"arrays/X.npy", npyOf("<f4", []int{90, 3, 2, 2}, x)}, entry{"arrays/y.npy", npyOf("<i8", []int{90}, y)})
	for i := range 40 {
		files = append(files, entry{fmt.Sprintf("flowers/%c/%d.png", 'a'+i%3, i), shade(i)})
	}
	return put(t, files...), []string{"pictures(path=flowers,size=8)", "mnist", "cifar10", "imagenet(size=16)", "imagenet(size=8,mixup=0.4,erase=0.3)", "imagenette(size=8)",
		"csv(path=own/own.csv,label=1)", "text(path=own/own.txt,context=3)", "npy(path=arrays)", "digits", "synthetic(dim=6,classes=3,n=150)"}
}
