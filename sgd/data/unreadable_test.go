package data

import (
	"bytes"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// twenty is an image folder of 16 training and 4 test pictures, of which broken
// ones hold half of a JPEG.
func twenty(set string, broken ...string) []entry {
	var out []entry
	for i := range 20 {
		split, class := "train", string(rune('a'+i%2))
		if i >= 16 {
			split = "val"
		}
		name := split + "/" + class + "/" + string(rune('a'+i)) + ".jpg"
		body := jpegBytes(uniform(64, 64, color.RGBA{uint8(10 * i), 0, 0, 255}), 90)
		if slices.Contains(broken, name) {
			body = body[:len(body)/2]
		}
		out = append(out, entry{set + "/" + name, body})
	}
	return out
}

// TestUnreadable: pictures that cannot be read are left out, named and counted,
// up to the share that is permitted; one more is an error that names that share.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	broken := []string{"train/a/c.jpg", "train/b/f.jpg"}
	for _, set := range []string{"tiny_imagenet", "imagenet(size=16)"} {
		name, _, _ := strings.Cut(set, "(")
		dir := put(t, twenty(name, broken...)...)
		whole := put(t, twenty(name)...)
		var mu sync.Mutex
		var told []string
		o := Options{Dir: dir, Unreadable: 0.1, Warn: func(s string) { mu.Lock(); told = append(told, s); mu.Unlock() }}

		read := func(o Options) (sgd.Dataset, error) {
			ds, err := Open(set, o)
			if err != nil {
				return ds, err
			}
			var b sgd.Batch
			return ds, ds.Train.Batch(sgd.Draw{N: 2 * ds.Train.Len()}, &b) // two epochs: each counts once
		}
		ds, err := read(o)
		if err != nil {
			t.Fatalf("%s: %v", set, err)
		}
		note := ds.Note
		if ds.LeftOut != nil {
			note = ds.LeftOut()
		}
		if want := "2 pictures of 20 left out, as they cannot be read: "; !strings.Contains(note, want) || !strings.Contains(note, broken[0]) || !strings.Contains(note, broken[1]) {
			t.Errorf("%s: noted %q, want %q and both names", set, note, want)
		}
		if len(told) != 2 {
			t.Errorf("%s: warned %q, want each picture once", set, told)
		}
		again, err := read(o)
		if err != nil {
			t.Fatal(err)
		}
		x, y := batch(t, ds.Train, 0, 40), batch(t, again.Train, 0, 40)
		if !slices.Equal(x.X, y.X) || !slices.Equal(x.Y, y.Y) {
			t.Errorf("%s: two openings serve different samples", set)
		}

		o.Unreadable, o.Warn = 0.09, nil
		if _, err := read(o); err == nil || !strings.Contains(err.Error(), "2 pictures of 20 cannot be read; the share that may be left out is unreadable=0.09, here 1") {
			t.Errorf("%s: one too many: %v", set, err)
		}
		if _, err := read(Options{Dir: dir}); err == nil {
			t.Errorf("%s: broken pictures were left out though none may be", set)
		}
		if _, err := read(Options{Dir: whole}); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// TestUnreadableKept: what was left out stands in the file of decoded pictures,
// which serves nobody who permits fewer.
func TestUnreadableKept(t *testing.T) {
	t.Parallel()
	dir, cache := put(t, twenty("tiny_imagenet", "val/a/q.jpg")...), t.TempDir()
	o := Options{Dir: dir, Cache: cache, KeepDecoded: true, Unreadable: 0.05}
	a := open(t, "tiny_imagenet", o)
	b := open(t, "tiny_imagenet", o)
	if a.Hash != b.Hash || a.Note != b.Note || !strings.Contains(b.Note, "q.jpg") || b.Test.Len() != 3 {
		t.Errorf("read again: %x %q, %d test samples; first %x %q", b.Hash, b.Note, b.Test.Len(), a.Hash, a.Note)
	}
	o.Unreadable = 0
	if _, err := Open("tiny_imagenet", o); err == nil {
		t.Error("the decoded set was served to somebody who permits no broken picture")
	}
}

// TestCheckReads: what no checksum vouches for is read, picture by picture.
func TestCheckReads(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tiny_imagenet", "imagenet"} {
		dir := put(t, twenty(name, "train/b/b.jpg", "val/a/s.jpg")...)
		loc, err := Check(name, Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range loc.Findings {
			if f.Problem && f.What == "broken pictures" {
				names = f.Names
			}
		}
		if loc.Samples != 20 || loc.Unread != 2 || len(names) != 2 || !strings.HasSuffix(names[0], "b.jpg") || !strings.HasSuffix(names[1], "s.jpg") {
			t.Errorf("%s: %d samples, %d unread: %q", name, loc.Samples, loc.Unread, names)
		}
		if loc, err = Check(name, Options{Dir: put(t, twenty(name)...)}); err != nil || loc.Err() != nil || loc.Samples != 20 {
			t.Errorf("%s, whole: %v, %v, %d samples", name, err, loc.Err(), loc.Samples)
		}
	}
	// A set in its own format that is cut off.
	x, y := idxPair(20, 5)
	dir := put(t, entry{"mnist/train-images-idx3-ubyte", x}, entry{"mnist/train-labels-idx1-ubyte", y},
		entry{"mnist/t10k-images-idx3-ubyte", x[:len(x)-1]}, entry{"mnist/t10k-labels-idx1-ubyte", y})
	loc, err := Check("mnist", Options{Dir: dir})
	if err != nil || loc.Err() == nil || !strings.Contains(loc.Err().Error(), "4 files: not the official content") || !strings.Contains(loc.Err().Error(), "1 file: cannot be read") {
		t.Errorf("cut off: %v, %v", err, loc.Err())
	}
	if err := os.WriteFile(filepath.Join(dir, "mnist/t10k-images-idx3-ubyte"), bytes.Clone(x), 0o644); err != nil {
		t.Fatal(err)
	}
	if loc, _ = Check("mnist", Options{Dir: dir}); loc.Samples != 40 {
		t.Errorf("%d samples read, want 40", loc.Samples)
	}
}
