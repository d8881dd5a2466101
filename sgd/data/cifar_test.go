package data

import (
	"image/color"
	"strings"
	"testing"
)

func TestOpenCIFAR(t *testing.T) {
	t.Parallel()
	bin := []entry{{"cifar-10-batches-bin/data_batch_1.bin", cifarBytes(cifar10Rec, 20)}, {"cifar-10-batches-bin/data_batch_2.bin", cifarBytes(cifar10Rec, 10)},
		{"cifar-10-batches-bin/test_batch.bin", cifarBytes(cifar10Rec, 15)}, {"cifar-10-batches-bin/batches.meta.txt", []byte("airplane\n")}}
	hundred := []entry{{"cifar-100-binary/train.bin", cifarBytes(cifar100Rec, 30)}, {"cifar-100-binary/test.bin", cifarBytes(cifar100Rec, 15)}}
	var hash uint64
	for _, c := range []struct {
		set   string
		files []entry
	}{
		{"cifar10", bin},
		{"cifar10", []entry{{"cifar-10-binary.tar.gz", gz(tarBytes(bin...))}}},
		{"cifar10", append([]entry{{"cifar10/copy.tar.zst", zst(tarBytes(bin...))}}, entry{"cifar10/" + bin[0].name, bin[0].body})},
		{"cifar100", hundred},
		{"cifar100", []entry{{"CIFAR100/c.tar", tarBytes(hundred...)}}},
	} {
		ds := open(t, c.set, Options{Dir: put(t, c.files...)})
		if ds.Train.Len() != 30 || ds.Test.Len() != 15 || ds.Train.Sample().Shape != cifarShape || ds.Note != "30 training samples instead of 50000; 15 test samples instead of 10000" {
			t.Errorf("%s: %d + %d of %s, %q", c.set, ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape, ds.Note)
		}
		if b := batch(t, ds.Test, 13, 1); b.Y[0] != 3 || b.X[0] == b.X[1024] {
			t.Errorf("label %d, channels %g %g", b.Y[0], b.X[0], b.X[1024])
		}
		if c.set == "cifar10" {
			if hash != 0 && hash != ds.Hash {
				t.Error("the packing changes the hash")
			}
			hash = ds.Hash
		}
	}
}

func TestCorruptCIFARIsNamed(t *testing.T) {
	t.Parallel()
	bad := cifarBytes(cifar10Rec, 5)
	bad[3*cifar10Rec] = 10
	_, err := Open("cifar10", Options{Dir: put(t, entry{"cifar10/data_batch_1.bin", bad})})
	if err == nil || !strings.Contains(err.Error(), "data_batch_1.bin: record 3 has label 10") {
		t.Error(err)
	}
}

// A batch that is missing, or cut off so that nothing recognises it, does not
// pass for the whole set.
func TestIncompleteCIFARIsNoted(t *testing.T) {
	old := recipes["cifar10"]
	r := *old
	r.train, r.test = 30, 15
	recipes["cifar10"] = &r
	defer func() { recipes["cifar10"] = old }()
	first, second, test := cifarBytes(cifar10Rec, 20), cifarBytes(cifar10Rec, 10), entry{"cifar10/test_batch.bin", cifarBytes(cifar10Rec, 15)}
	for _, c := range []struct {
		second []byte
		note   string
	}{
		{second, ""},
		{second[:7*cifar10Rec], "27 training samples instead of 30"},
		{second[:7*cifar10Rec+5], "20 training samples instead of 30"},
		{nil, "20 training samples instead of 30"},
	} {
		ds := open(t, "cifar10", Options{Dir: put(t, entry{"cifar10/data_batch_1.bin", first}, entry{"cifar10/data_batch_2.bin", c.second}, test)})
		if ds.Note != c.note {
			t.Errorf("%d bytes of the second batch: note %q, want %q", len(c.second), ds.Note, c.note)
		}
	}
}

func FuzzCIFAR(f *testing.F) {
	f.Add(cifarBytes(cifar10Rec, 2), true)
	f.Add(cifarBytes(cifar100Rec, 2), false)
	f.Add([]byte{1, 2, 3}, true)
	f.Fuzz(func(t *testing.T, b []byte, ten bool) {
		k := cifar100Kind
		if ten {
			k = cifar10Kind
		}
		var m images
		if err := parseCIFAR(b, k, &m); err == nil {
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzSniff covers recognition and unpacking of arbitrary bytes.
func FuzzSniff(f *testing.F) {
	x, _ := idxPair(2, 1)
	for _, b := range [][]byte{x, gz(x), zst(x), tarBytes(entry{"a/../../b", x}, entry{"c.gz", gz(x)}), zipBytes(entry{"d", x}), cmykJPEG(), webpBytes(4, 4, color.RGBA{1, 2, 3, 255})} {
		f.Add(b)
		f.Add(gz(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := openTree(put(t, entry{"mnist/file", b}), false, "", nil)
		if err != nil {
			return
		}
		defer tr.Close()
		for _, r := range recipes {
			tr.load(r, "", Options{})
		}
	})
}
