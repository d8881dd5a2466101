package data

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/sgd"
)

// manyPictures is a set of JPEGs and PNGs of several sizes, below a name.
func manyPictures(name string) []entry {
	var files []entry
	for i := range 8 {
		files = append(files, entry{fmt.Sprintf("%s/train/n%d/%02d.JPEG", name, i%3, i), jpegBytes(scene(150+31*i, 260-15*i, i), 92)})
	}
	return append(files, entry{name + "/train/n0/p.JPEG", pngBytes(scene(200, 33, 3))}, entry{name + "/train/n1/c.JPEG", cmykJPEG()}, entry{name + "/val/n0/v.JPEG", files[0].body})
}

// keptFiles is what lies in the folder of resized pictures, locks apart.
func keptFiles(t *testing.T, cache string) (out []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(cache, "resized", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.HasSuffix(f, ".lock") {
			out = append(out, f)
		}
	}
	return out
}

// samplesOf is two epochs of training samples and one of test samples.
func samplesOf(t *testing.T, ds sgd.Dataset) []float32 {
	t.Helper()
	return slices.Concat(batch(t, ds.Train, 0, 2*ds.Train.Len()).X, batch(t, ds.Test, 0, ds.Test.Len()).X)
}

// Samples of resized pictures have the same bits whether there is a file, whether it is
// made or read, and when it is damaged; they are close to those without cache=.
func TestResizedPicturesAreAMemo(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		files := manyPictures("imagenette")
		if packed {
			files = []entry{{"imagenette.tar", tarBytes(files...)}}
		}
		o := Options{Dir: put(t, files...), Seed: 5, Augment: true}
		const spec = "imagenette(size=32,cache=48)"
		want := samplesOf(t, open(t, spec, o))
		o.Cache, o.KeepDecoded = t.TempDir(), true
		check := func(what string) {
			t.Helper()
			if ds := open(t, spec, o); !slices.Equal(samplesOf(t, ds), want) || strings.Contains(ds.Note, "not kept") {
				t.Errorf("packed %v, %s: other samples, note %q", packed, what, ds.Note)
			}
		}
		check("made")
		kept := keptFiles(t, o.Cache)
		if len(kept) != 1 || filepath.Ext(kept[0]) != ".resized" {
			t.Fatalf("kept %q", kept)
		}
		whole, err := os.ReadFile(kept[0])
		if err != nil {
			t.Fatal(err)
		}
		check("read")
		for name, change := range map[string]func(b []byte) []byte{
			"a picture damaged": func(b []byte) []byte { b[len(resizedMagic)+99] ^= 1; return b },
			"the index damaged": func(b []byte) []byte { b[len(b)-20] ^= 1; return b },
			"cut off":           func(b []byte) []byte { return b[:len(b)/2] },
			"empty":             func([]byte) []byte { return nil },
		} {
			bad := filepath.Join(t.TempDir(), "bad") // by name: others may have the old one mapped
			if err := os.WriteFile(bad, change(bytes.Clone(whole)), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(bad, kept[0]); err != nil {
				t.Fatal(err)
			}
			check(name)
			if b, _ := os.ReadFile(kept[0]); name != "a picture damaged" && !bytes.Equal(b, whole) {
				t.Errorf("%s: not made again", name)
			}
		}
		o.Cache = ""
		plain := samplesOf(t, open(t, "imagenette(size=32)", o))
		sum := 0.0
		for i, v := range plain {
			sum += math.Abs(float64(v - want[i]))
		}
		if mean := 255 * sum * .226 / float64(len(plain)); mean > 8 || mean == 0 {
			t.Errorf("%.1f levels from samples without cache=", mean)
		}
	}
}

// A set that was changed has another file; a cache that cannot be written to is told of.
func TestResizedPicturesOfAChangedSet(t *testing.T) {
	t.Parallel()
	dir, cache := put(t, manyPictures("imagenette")...), t.TempDir()
	o := Options{Dir: dir, Cache: cache, KeepDecoded: true}
	const spec = "imagenette(size=32,cache=40)"
	before := samplesOf(t, open(t, spec, o))
	one := filepath.Join(dir, "imagenette/val/n0/v.JPEG")
	if err := os.WriteFile(one, jpegBytes(scene(150, 260, 77), 92), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(one, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if after := samplesOf(t, open(t, spec, o)); slices.Equal(before, after) {
		t.Error("the picture as it was before is served")
	}
	if kept := keptFiles(t, cache); len(kept) != 2 {
		t.Errorf("kept %q", kept)
	}
	o.Cache = filepath.Join(cache, "file")
	if err := os.WriteFile(o.Cache, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ds := open(t, spec, o); !strings.Contains(ds.Note, "resized pictures are not kept: ") || ds.Test.Len() != 1 {
		t.Errorf("note %q", ds.Note)
	}
}

// Of processes that ask for a file at a time one makes it.
func TestResizedPicturesAreMadeOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	made := 0
	o := Options{Dir: put(t, manyPictures("imagenette")...), Cache: t.TempDir(), KeepDecoded: true, Progress: func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Note != "" {
			made++
		}
	}}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := Open("imagenette(size=32,cache=40)", o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if kept := keptFiles(t, o.Cache); made != 1 || len(kept) != 1 {
		t.Errorf("made %d times, kept %q", made, kept)
	}
}

// What cannot be read is left out as it is without a file, and named with the reason.
func TestResizedPicturesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	o := Options{Dir: put(t, twenty("imagenet", "train/b/b.jpg")...), Unreadable: 0.05}
	const spec = "imagenet(size=8,cache=16)"
	bare := open(t, spec, o)
	want := samplesOf(t, bare)
	o.Cache, o.KeepDecoded = t.TempDir(), true
	for range 2 {
		ds := open(t, spec, o)
		if got := samplesOf(t, ds); !slices.Equal(got, want) || ds.LeftOut() != bare.LeftOut() || !strings.Contains(ds.LeftOut(), "b.jpg") {
			t.Errorf("left out %q, without a file %q", ds.LeftOut(), bare.LeftOut())
		}
	}
	o.Unreadable = 0
	if err := open(t, spec, o).Train.Batch(sgd.Draw{N: 16}, new(sgd.Batch)); err == nil {
		t.Error("a broken picture was left out though none may be")
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ w, h, side, wantW, wantH int }{{500, 375, 256, 341, 256}, {375, 500, 100, 100, 133}, {64, 300, 64, 64, 300}, {40, 30, 64, 40, 30}, {1, 9, 8, 1, 9}} {
		img := scene(c.w, c.h, 2)
		out, w, h, err := shrink([]byte("before"), pngBytes(img), c.side)
		if err != nil || w != c.wantW || h != c.wantH || len(out) != 6+shrunkLen(w, h) || string(out[:6]) != "before" {
			t.Fatalf("%+v: %d×%d, %d bytes, %v", c, w, h, len(out), err)
		}
		var s shrunk
		s.of(out[6:], w, h)
		for _, at := range []image.Point{{0, 0}, {w / 2, h / 2}, {w - 1, h - 1}} {
			r, _, _, _ := s.At(at.X, at.Y).RGBA()
			want, _, _, _ := img.At(min(at.X*c.w/w+c.w/w/2, c.w-1), min(at.Y*c.h/h+c.h/h/2, c.h-1)).RGBA()
			if e := int(r>>8) - int(want>>8); e < -12 || e > 12 {
				t.Errorf("%+v: red at %v is %d, want about %d", c, at, r>>8, want>>8)
			}
		}
	}
	if _, _, _, err := shrink(nil, []byte("no picture"), 64); err == nil {
		t.Error("no picture")
	}
}
