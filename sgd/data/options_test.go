package data

import (
	"fmt"
	"image/color"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// ramp is a set of n pictures of side×side in which every pixel differs: sample i is
// told by its label.
func ramp(n, side int) *images {
	m := &images{sh: sgd.Shape{C: 3, H: side, W: side}, cls: n}
	for i := range n {
		m.label = append(m.label, int32(i))
		for k := range m.sh.Len() {
			m.pix = append(m.pix, byte(1+(k*5+i*3)%255))
		}
	}
	return m
}

// shown serves ramp with options, augmented.
func shown(n, side int, s Shifts) sgd.Source {
	r := (&recipe{pad: 4}).with(s)
	one := newScale(3, 255, []float32{0}, []float32{1})
	m := ramp(n, side)
	return dataset(&held{m, r.trainView(one)}, &held{m, view{scale: one}}, Options{Seed: 7, Augment: true}, false).Train
}

// everyOption is sets with each option of augmentation away from its default.
func everyOption(t *testing.T) map[string]sgd.Source {
	out := map[string]sgd.Source{}
	for name, s := range map[string]Shifts{
		"default": shifts(4), "reflect": {3, "reflect", Augmentation{Flip: flipAlternate}}, "erase": {0, "black", Augmentation{Flip: flipNone, Erase: 0.5}},
		"mixup": {2, "black", Augmentation{Flip: flipRandom, Mixup: 0.2}}, "cutmix": {2, "black", Augmentation{Flip: flipRandom, Cutmix: 1}},
		"mixed": {2, "reflect", Augmentation{Flip: flipAlternate, Erase: 0.1, Mixup: 1, Cutmix: 1}},
	} {
		out[name] = shown(37, 12, s)
	}
	var files []entry
	for i := range 30 {
		img := uniform(40+i, 50, color.RGBA{uint8(8 * i), 100, uint8(255 - 8*i), 255})
		files = append(files, entry{fmt.Sprintf("imagenette2-160/train/n%d/%02d.JPEG", i%3, i), jpegBytes(img, 90)})
	}
	files = append(files, entry{"imagenette2-160/val/n0/v.JPEG", files[0].body})
	o := Options{Dir: put(t, files...), Seed: 7, Augment: true}
	out["pictures"] = open(t, "imagenette(size=16,min_area=0.3,max_aspect=2,flip=alternate,erase=0.5,lighting=0.1)", o).Train
	return out
}

// W workers with batches of B see every sample once an epoch between them, and each
// sample as one worker alone would, whatever W and B are, in whatever order and on
// however many threads batches are drawn.
func TestSamplesDoNotDependOnWorkers(t *testing.T) {
	for name, src := range everyOption(t) {
		n, dim := src.Len(), src.Sample().Shape.Len()
		want := batch(t, src, 0, 2*n)
		for e := range 2 {
			seen := slices.Clone(want.Y[e*n : (e+1)*n])
			counts := map[int32]int{}
			for _, y := range seen {
				counts[y]++
			}
			first := map[int32]int{}
			for _, y := range want.Y[:n] {
				first[y]++
			}
			if fmt.Sprint(counts) != fmt.Sprint(first) || name != "pictures" && name != "reduced" && len(counts) != n {
				t.Errorf("%s: epoch %d does not have every sample once: %v", name, e, counts)
			}
		}
		for _, c := range []struct{ workers, batch, procs int }{{1, 5, 1}, {3, 4, 2}, {4, 1, 4}, {2, 16, 3}} {
			old := runtime.GOMAXPROCS(c.procs)
			var wg sync.WaitGroup
			for w := range c.workers {
				wg.Go(func() {
					// Rank r of W at step s draws (s·W + r)·B: the last steps first.
					for s := 2*n/(c.workers*c.batch) - 1; s >= 0; s-- {
						at := (s*c.workers + w) * c.batch
						var b sgd.Batch
						if err := src.Batch(sgd.Draw{First: uint64(at), N: c.batch}, &b); err != nil {
							t.Error(err)
							return
						}
						if len(want.Share) > 0 && (!slices.Equal(b.Other, want.Other[at:at+c.batch]) || !slices.Equal(b.Share, want.Share[at:at+c.batch])) || len(b.Share) > 0 != (len(want.Share) > 0) {
							t.Errorf("%s: labels of samples %d … of rank %d of %d are mixed otherwise", name, at, w, c.workers)
							return
						}
						if !slices.Equal(b.Y, want.Y[at:at+c.batch]) || !slices.Equal(b.X, want.X[at*dim:(at+c.batch)*dim]) {
							t.Errorf("%s: samples %d … of rank %d of %d differ", name, at, w, c.workers)
							return
						}
					}
				})
			}
			wg.Wait()
			runtime.GOMAXPROCS(old)
		}
	}
}

// Alternating flip shows every picture both ways in two epochs in succession, and a
// random half of them mirrored in the first.
func TestAlternatingFlip(t *testing.T) {
	t.Parallel()
	const n, side = 200, 6
	src := shown(n, side, Shifts{0, "black", Augmentation{Flip: flipAlternate}})
	m := ramp(n, side)
	mirrored := 0
	seen := map[int32][]bool{}
	for e := range 4 {
		b := batch(t, src, uint64(e*n), n)
		for k, y := range b.Y {
			x, pix := b.X[k*m.sh.Len():(k+1)*m.sh.Len()], m.pix[int(y)*m.sh.Len():]
			plain, turned := true, true
			for i := range x {
				row, col := i/side, i%side
				plain = plain && x[i] == float32(pix[i])/255
				turned = turned && x[i] == float32(pix[row*side+side-1-col])/255
			}
			if plain == turned {
				t.Fatalf("sample %d is neither the picture nor its mirror image", y)
			}
			seen[y] = append(seen[y], turned)
			if e == 0 && turned {
				mirrored++
			}
		}
	}
	for y, s := range seen {
		if s[0] == s[1] || s[1] == s[2] || s[2] == s[3] {
			t.Fatalf("sample %d is seen mirrored in epochs %v", y, s)
		}
	}
	if mirrored < 70 || mirrored > 130 {
		t.Errorf("%d of %d mirrored in the first epoch", mirrored, n)
	}
}

// TestReflectAgainstPadAndCrop compares with the textbook: reflect, crop, mirror.
func TestReflectAgainstPadAndCrop(t *testing.T) {
	t.Parallel()
	const h, w = 4, 5
	var tb table
	for i := range tb {
		tb[i] = float32(i)
	}
	from := make([]uint8, h*w)
	for i := range from {
		from[i] = uint8(i + 1)
	}
	// 3 2 1 0 1 2 3 4 3 2 1 …: the places of a reflected axis.
	axis := func(n int) (out []int) {
		for i := n - 1; i > 0; i-- {
			out = append(out, i)
		}
		for i := range n {
			out = append(out, i)
		}
		for i := n - 2; i >= 0; i-- {
			out = append(out, i)
		}
		return out
	}
	rows, cols := axis(h), axis(w)
	to := make([]float32, h*w)
	for dy := -(h - 1); dy < h; dy++ {
		for dx := -(w - 1); dx < w; dx++ {
			for _, flip := range []bool{false, true} {
				tb.moved(to, from, h, w, dx, dy, flip, true)
				for i := range to {
					y, x := i/w, i%w
					if flip {
						x = w - 1 - x
					}
					if want := float32(from[rows[h-1+y+dy]*w+cols[w-1+x+dx]]); to[i] != want {
						t.Fatalf("dx %d dy %d flip %v at %d: %g, want %g", dx, dy, flip, i, to[i], want)
					}
				}
			}
		}
	}
}

// Erasing sets one rectangle of 2 to 33 % to 0, in the share of pictures asked for.
func TestErase(t *testing.T) {
	t.Parallel()
	const n, side = 2000, 20
	src := shown(n, side, Shifts{0, "black", Augmentation{Flip: flipNone, Erase: 0.25}})
	b := batch(t, src, 0, n)
	erased, plane := 0, side*side
	for k := range n {
		x := b.X[k*3*plane : (k+1)*3*plane]
		top, left, bottom, right, count := side, side, -1, -1, 0
		for i, v := range x[:plane] {
			if (v == 0) != (x[plane+i] == 0) || (v == 0) != (x[2*plane+i] == 0) {
				t.Fatal("erased in one channel only")
			}
			if v == 0 {
				top, left, bottom, right = min(top, i/side), min(left, i%side), max(bottom, i/side), max(right, i%side)
				count++
			}
		}
		if count == 0 {
			continue
		}
		erased++
		if count != (bottom-top+1)*(right-left+1) {
			t.Fatalf("%d pixels erased, not the rectangle %d…%d × %d…%d", count, left, right, top, bottom)
		}
		if share := float64(count) / float64(plane); share < 0.01 || share > 0.37 {
			t.Errorf("a share of %.3f erased", share)
		}
	}
	if erased < n/5 || erased > 3*n/10 {
		t.Errorf("%d of %d erased, want about a quarter", erased, n)
	}
}

// Light is the same on every pixel, and its covariance over samples is that of the
// colours: A·diag((σ·scale)²)·Aᵀ.
func TestLighting(t *testing.T) {
	t.Parallel()
	const n = 20000
	p := Pictures{Lighting: 0.1}
	sh := sgd.Shape{C: 3, H: 1, W: 2}
	var cov [3][3]float64
	for i := range n {
		x := make([]float32, 6)
		p.light(x, sh, []float32{1, 1, 1}, jitter{on: true, key: rng.New(3, "augment").With(uint64(i))})
		for a := range 3 {
			if x[2*a] != x[2*a+1] {
				t.Fatal("two pixels in different light")
			}
			for b := range 3 {
				cov[a][b] += float64(x[2*a]) * float64(x[2*b]) / n
			}
		}
	}
	for a := range 3 {
		for b := range 3 {
			want := 0.0
			for k, s := range lightScale {
				want += lightAxes[a][k] * lightAxes[b][k] * s * s * 0.01
			}
			if math.Abs(cov[a][b]-want) > 0.05*cov[a][a] {
				t.Errorf("covariance %d, %d is %.3g, want %.3g", a, b, cov[a][b], want)
			}
		}
	}
	for a := range 3 { // the directions are of length 1, at right angles
		for b := range 3 {
			dot := 0.0
			for c := range 3 {
				dot += lightAxes[c][a] * lightAxes[c][b]
			}
			if want := map[bool]float64{true: 1}[a == b]; math.Abs(dot-want) > 1e-3 {
				t.Errorf("axes %d and %d have the product %.4f", a, b, dot)
			}
		}
	}
}

// With resize=R the test sample is the middle size×size of the picture scaled to a
// short side of R; the default is 8/7 of size.
func TestResizeThenCentre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, resize, side int // of the square that is cut out of 512×640
	}{{224, 0, 448}, {224, 256, 448}, {224, 232, 494}, {224, 224, 512}, {64, 128, 256}} {
		r := centre(512, 640, c.size, c.size, Pictures{Resize: c.resize}.keep(c.size))
		if r.Dx() != c.side || r.Dy() != c.side || r.Min.X != (512-c.side)/2 || r.Min.Y != (640-c.side)/2 {
			t.Errorf("%+v: %v", c, r)
		}
	}
}

func TestOptionsOfAugmentation(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"cifar10(translate=32)":                              "want 0 to 31 pixels",
		"cifar100(border=white)":                             "want black or reflect",
		"tiny_imagenet(flip=up)":                             "want random, alternate or none",
		"imagenet32(erase=2)":                                "want a probability",
		"imagenet(size=224,resize=200)":                      "want 224 (size) to 2048",
		"imagenet(min_area=0)":                               "want a share above 0",
		"imagenette(max_aspect=0.5)":                         "want 1 to 10",
		"imagewoof(lighting=-1)":                             "want a deviation",
		"cifar10(mixup=5)":                                   "want 0.01 to 4",
		"imagenet(cutmix=-1)":                                "want 0.01 to 4",
		"imagewoof(size=4)":                                  "size must be 8 to 1024",
		"cifar10(translate=2,border=reflect,flip=alternate)": "",
		"imagenet(64)":                                       "",
	} {
		set, err := Sets.Parse(spec)
		if want == "" {
			if err != nil || spec != "imagenet(64)" && Sets.Spec(set) != spec {
				t.Errorf("%s: %v, %v", spec, set, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in: %v", spec, want, err)
		}
	}
	for _, name := range Sets.Names() { // a name alone stays one, as run folders have it
		if set := Sets.MustParse(name); Sets.Spec(set) != name {
			t.Errorf("%s becomes %s", name, Sets.Spec(set))
		}
	}
	_, _, rec := cifarRows(3, 10)
	dir := put(t, entry{"cifar10/data_batch_1.bin", rec}, entry{"cifar10/test_batch.bin", rec})
	for spec, note := range map[string]bool{"cifar10": false, "cifar10(erase=0.1)": true} {
		for _, augment := range []bool{false, true} {
			ds := open(t, spec, Options{Dir: dir, Augment: augment})
			if got := strings.Contains(ds.Note, "no effect without augment=true"); got != (note && !augment) {
				t.Errorf("%s, augment %v: note %q", spec, augment, ds.Note)
			}
		}
	}
}
