package data

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseIDXErrors(t *testing.T) {
	t.Parallel()
	good, _ := idxPair(3, 1)
	if dims, body, err := parseIDX(good); err != nil || len(dims) != 3 || len(body) != 48 {
		t.Fatal(dims, len(body), err)
	}
	for name, b := range map[string][]byte{
		"empty":      nil,
		"short":      good[:10],
		"truncated":  good[:len(good)-1],
		"trailing":   append(bytes.Clone(good), 0),
		"floats":     append([]byte{0, 0, 0x0d, 3}, good[4:]...),
		"huge":       idxBytes([]int{1<<31 - 1, 1<<31 - 1, 1<<31 - 1, 1<<31 - 1}, []byte{1}),
		"overflow":   idxBytes([]int{1 << 30, 1 << 30, 16}, []byte{1}),
		"zero":       idxBytes([]int{0, 4, 4}, nil),
		"dimensions": idxBytes([]int{1, 1, 1, 1, 1}, []byte{1}),
	} {
		if _, _, err := parseIDX(b); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func FuzzIDX(f *testing.F) {
	x, y := idxPair(3, 1)
	f.Add(x)
	f.Add(y)
	f.Fuzz(func(t *testing.T, b []byte) {
		dims, body, err := parseIDX(b)
		if err != nil {
			return
		}
		n := 1
		for _, d := range dims {
			n *= d
		}
		if n != len(body) || len(body) > len(b) {
			t.Fatalf("%v for %d bytes", dims, len(body))
		}
	})
}

func TestOpenIDX(t *testing.T) {
	t.Parallel()
	tx, ty := idxPair(30, 8)
	vx, vy := idxPair(20, 4)
	for name, files := range map[string][]entry{
		"named":   {{"mnist/train-images-idx3-ubyte.gz", gz(tx)}, {"mnist/train-labels-idx1-ubyte.gz", gz(ty)}, {"mnist/t10k-images-idx3-ubyte", vx}, {"mnist/t10k-labels-idx1-ubyte", vy}},
		"unnamed": {{"MNIST data/c", gz(tx)}, {"MNIST data/d", gz(ty)}, {"MNIST data/a", vx}, {"MNIST data/b", vy}},
		"twice": {{"mnist/train-images.gz", gz(tx)}, {"mnist/train-labels", ty}, {"mnist/train-images", tx},
			{"mnist/test-images", vx}, {"mnist/test-labels", vy}, {"mnist/README", []byte("hello")}},
		"directly": {{"train-images-idx3-ubyte.gz", gz(tx)}, {"train-labels", ty}, {"t10k-images", vx}, {"t10k-labels", vy}},
		"tar.gz":   {{"mnist.tgz", gz(tarBytes(entry{"x/train-images.gz", gz(tx)}, entry{"x/train-labels", ty}, entry{"x/t10k-images", vx}, entry{"x/t10k-labels", vy}))}},
		"tar.zst":  {{"mnist.bin", zst(tarBytes(entry{"train-images", tx}, entry{"train-labels", ty}, entry{"t10k-images", vx}, entry{"t10k-labels", vy}))}},
		"zip":      {{"mnist-v1", zipBytes(entry{"train-images", tx}, entry{"train-labels.gz", gz(ty)}, entry{"t10k-images", vx}, entry{"t10k-labels", vy})}},
	} {
		ds, err := Open("mnist", Options{Dir: put(t, files...)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ds.Train.Len() != 30 || ds.Test.Len() != 20 || ds.Train.Sample().Shape.String() != "1x4x4" {
			t.Errorf("%s: %d + %d of %s", name, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
			continue
		}
		b := batch(t, ds.Test, 13, 1)
		if want := (float32(52)/255 - .1307) / .3081; b.Y[0] != 3 || b.X[0] != want {
			t.Errorf("%s: label %d, pixel %g, want 3, %g", name, b.Y[0], b.X[0], want)
		}
	}
	ds := open(t, "mnist", Options{Dir: put(t, entry{"mnist/train-images-idx3-ubyte", tx}, entry{"mnist/train-labels-idx1-ubyte", ty},
		entry{"mnist/t10k-images-idx3-ubyte", vx}, entry{"mnist/t10k-labels-idx1-ubyte", vy})})
	if !strings.Contains(ds.Note, "train-images-idx3-ubyte is not the official file") {
		t.Errorf("note %q", ds.Note)
	}
}

func TestOpenIDXErrors(t *testing.T) {
	t.Parallel()
	tx, ty := idxPair(30, 8)
	vx, _ := idxPair(20, 4)
	for want, files := range map[string][]entry{
		"t10k-images":          {{"mnist/train-images", tx}, {"mnist/train-labels", ty}, {"mnist/t10k-images", vx[:50]}},
		"test part is missing": {{"mnist/train-images", tx}, {"mnist/train-labels", ty}},
		"label 11": {{"mnist/train-images", tx}, {"mnist/train-labels", ty}, {"mnist/t10k-images", vx},
			{"mnist/t10k-labels", idxBytes([]int{20}, bytes.Repeat([]byte{11}, 20))}},
	} {
		_, err := Open("mnist", Options{Dir: put(t, files...)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}
