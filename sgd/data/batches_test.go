package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// pickleBatch writes a batch as Python does: protocol 2 with the byte strings of
// Python 2 (CIFAR), 3 with bytes, 4 with frames and memoised names, 5 with an array
// made from a buffer.
func pickleBatch(proto byte, key string, labels []int, rows int, data []byte) []byte {
	var b bytes.Buffer
	le := binary.LittleEndian
	str := func(s string) {
		switch {
		case proto == 2:
			b.Write(append([]byte{'U', byte(len(s))}, s...))
		case proto == 3:
			b.Write(append(append([]byte{'X'}, le.AppendUint32(nil, uint32(len(s)))...), s...))
		default:
			b.Write(append([]byte{0x8c, byte(len(s))}, s...))
			b.WriteByte(0x94)
		}
	}
	name := func(module, what string) {
		if proto < 4 {
			fmt.Fprintf(&b, "c%s\n%s\n", module, what)
			return
		}
		str(module)
		str(what)
		b.WriteByte(0x93)
	}
	number := func(n int) {
		switch {
		case n < 256:
			b.Write([]byte{'K', byte(n)})
		case n < 65536:
			b.Write(le.AppendUint16([]byte{'M'}, uint16(n)))
		default:
			b.Write(le.AppendUint32([]byte{'J'}, uint32(n)))
		}
	}
	raw := func(p []byte) {
		switch proto {
		case 2:
			b.Write(append(le.AppendUint32([]byte{'T'}, uint32(len(p))), p...))
		case 3, 4:
			b.Write(append(le.AppendUint32([]byte{'B'}, uint32(len(p))), p...))
		default:
			b.Write(append(le.AppendUint64([]byte{0x96}, uint64(len(p))), p...))
		}
	}
	dtype := func() {
		name("numpy", "dtype")
		str("u1")
		b.WriteString("K\x00K\x01\x87R(")
		number(3)
		str("|")
		b.WriteString("NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
	}
	shape := func() {
		number(rows)
		number(len(data) / rows)
		b.WriteByte(0x86)
	}
	b.Write([]byte{0x80, proto})
	if proto >= 4 {
		b.Write(append([]byte{0x95}, make([]byte, 8)...))
	}
	b.WriteString("}")
	if proto < 4 {
		b.WriteString("q\x01")
	} else {
		b.WriteByte(0x94)
	}
	b.WriteString("(")
	str("batch_label")
	str("training batch 1 of 5")
	str(key)
	b.WriteString("](")
	for _, y := range labels {
		number(y)
	}
	b.WriteString("e")
	str("data")
	if proto < 5 {
		name("numpy.core.multiarray", "_reconstruct")
		name("numpy", "ndarray")
		b.WriteString("K\x00\x85")
		str("b")
		b.WriteString("\x87R(K\x01")
		shape()
		dtype()
		b.WriteByte(0x89)
		raw(data)
		b.WriteString("tb")
	} else {
		name("numpy._core.numeric", "_frombuffer")
		b.WriteString("(")
		raw(data)
		dtype()
		shape()
		str("C")
		b.WriteString("tR")
	}
	b.WriteString("u.")
	return b.Bytes()
}

// npzBatch writes the same as numpy.savez does.
func npzBatch(labels []int, rows int, data []byte) []byte {
	npy := func(typ, shape string, body []byte) []byte {
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", typ, shape)
		head += strings.Repeat(" ", 117-len(head)) + "\n"
		return append(append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(head))), head...), body...)
	}
	var y []byte
	for _, v := range labels {
		y = binary.LittleEndian.AppendUint64(y, uint64(v))
	}
	return zipBytes(entry{"data.npy", npy("|u1", fmt.Sprintf("%d, %d", rows, len(data)/rows), data)},
		entry{"labels.npy", npy("<i8", fmt.Sprintf("%d,", rows), y)})
}

// cifarRows is n pictures and labels, and the same as a binary file's records.
func cifarRows(n, classes int) (labels []int, data, records []byte) {
	for i := range n {
		row := make([]byte, cifarPixels)
		for k := range row {
			row[k] = byte(k*7 + i*31)
		}
		y := (i * 37) % classes
		labels, data = append(labels, y), append(data, row...)
		if classes == 100 {
			records = append(records, byte(y/5))
		}
		records = append(append(records, byte(y)), row...)
	}
	return labels, data, records
}

// The Python version of CIFAR is the same set as the binary one, to the hash,
// whichever protocol it was pickled by, unpacked or not.
func TestPickledCIFARIsTheBinaryOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set, key, train, test, raw string
		classes                    int
	}{
		{"cifar10", "labels", "data_batch_1", "test_batch", "cifar-10-batches", 10},
		{"cifar100", "fine_labels", "train", "test", "cifar-100", 100},
	} {
		trainY, trainX, trainRec := cifarRows(30, c.classes)
		testY, testX, testRec := cifarRows(20, c.classes)
		want := open(t, c.set, Options{Dir: put(t, entry{c.raw + "-bin/" + c.train + ".bin", trainRec}, entry{c.raw + "-bin/" + c.test + ".bin", testRec})})
		for proto := byte(2); proto <= 5; proto++ {
			files := []entry{
				{c.raw + "-py/" + c.train, pickleBatch(proto, c.key, trainY, 30, trainX)},
				{c.raw + "-py/" + c.test, pickleBatch(proto, c.key, testY, 20, testX)},
				{c.raw + "-py/batches.meta", []byte("\x80\x02}q\x01U\x0bnum_vis____q\x02K\x0as.")},
				{c.raw + "-py/readme.html", []byte("<html>")},
			}
			for name, o := range map[string]Options{
				"folder": {Dir: put(t, files...)},
				"tar.gz": {Dir: put(t, entry{strings.ReplaceAll(c.set, "cifar", "cifar-") + "-python.tar.gz", gz(tarBytes(files...))})},
			} {
				ds, err := Open(c.set, o)
				if err != nil {
					t.Errorf("%s, protocol %d, %s: %v", c.set, proto, name, err)
					continue
				}
				if ds.Hash != want.Hash || !slices.Equal(batch(t, ds.Test, 0, 20).X, batch(t, want.Test, 0, 20).X) {
					t.Errorf("%s, protocol %d, %s: not the samples of the binary version", c.set, proto, name)
				}
			}
		}
	}
}

// Downsampled ImageNet is read from pickles and from .npz alike, in place.
func TestDownsampledImageNet(t *testing.T) {
	t.Parallel()
	const side, n = 16, 12
	rows := func(seed, n int) (y []int, x []byte) {
		for i := range n {
			y = append(y, 1+(seed*500+i*83)%1000)
			for k := range 3 * side * side {
				x = append(x, byte(k+seed+i))
			}
		}
		return y, x
	}
	var pickles, arrays []entry
	for b := range 3 {
		y, x := rows(b, n)
		name := fmt.Sprintf("imagenet16/train/train_data_batch_%d", b+1)
		if b == 2 {
			name = "imagenet16/val/val_data"
		}
		pickles = append(pickles, entry{name, pickleBatch(3, "labels", y, n, x)})
		arrays = append(arrays, entry{name + ".npz", npzBatch(y, n, x)})
	}
	o := Options{Dir: put(t, pickles...), Seed: 3, Augment: true}
	ds := open(t, "imagenet16", o)
	o.Dir = put(t, arrays...)
	same := open(t, "imagenet16", o)
	if ds.Train.Len() != 2*n || ds.Test.Len() != n || ds.Train.Sample().Classes != 1000 || ds.Train.Sample().Shape != (sgd.Shape{C: 3, H: side, W: side}) {
		t.Fatalf("%d + %d of %s", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Shape)
	}
	a, b := batch(t, ds.Train, 5, 2*n), batch(t, same.Train, 5, 2*n)
	if ds.Hash != same.Hash || !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) {
		t.Error("the .npz and the pickles are not the same set")
	}
	if loc, err := Check("imagenet16", o); err != nil || loc.Err() != nil || loc.Samples != 3*n {
		t.Errorf("verified: %+v, %v", loc, err)
	}
	y, x := rows(2, n)
	test := batch(t, ds.Test, 0, n)
	for i := range n {
		if int(test.Y[i]) != y[i]-1 {
			t.Errorf("test label %d is %d, want %d", i, test.Y[i], y[i]-1)
		}
		for _, k := range []int{0, 300, 767} {
			c := k / (side * side)
			if want := (float32(x[i*768+k])/255 - imageNetMean[c]) / imageNetStd[c]; test.X[i*768+k] != want {
				t.Fatalf("test picture %d, value %d is %v, want %v", i, k, test.X[i*768+k], want)
			}
		}
	}
	for want, files := range map[string][]entry{
		"the test part is missing": pickles[:2],
		"rows of 3072 bytes":       {{"imagenet16/train_data_batch_1", pickleBatch(3, "labels", y[:1], 1, make([]byte, 3072))}, pickles[2]},
		"labels for 2 pictures":    {{"imagenet16/train_data_batch_1", pickleBatch(3, "labels", y[:1], 2, x[:2*768])}, pickles[2]},
		"want 1 to 1000":           {{"imagenet16/train_data_batch_1", pickleBatch(3, "labels", []int{1001}, 1, x[:768])}, pickles[2]},
		"no array \"labels\"":      {{"imagenet16/train_data_batch_1.npz", zipBytes(entry{"data.npy", []byte("\x93NUMPY")})}, pickles[2]},
	} {
		if _, err := Open("imagenet16", Options{Dir: put(t, files...)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	if loc, err := Locate("imagenet", o); err != nil || loc.Found {
		t.Errorf("imagenet16 is taken for imagenet: %v", loc)
	}
}

func TestPicklesAskForNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pickle, want string }{
		"a command":        {"\x80\x03}q\x00(X\x01\x00\x00\x00acposix\nsystem\nX\x02\x00\x00\x00ls\x85Ru.", `asks for "system" of "posix"`},
		"a builtin":        {"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x8c\x08builtins\x8c\x04eval\x93.", `asks for "eval"`},
		"an instance":      {"\x80\x02}q\x00(i", "instruction 0x69"},
		"another object":   {"\x80\x02}](K\x01e.", "something else than one dict"},
		"a cut":            {"\x80\x02}q\x00(U\x04dataT\xff\xff\xff\x7f" + "ab", "2147483647 bytes are promised"},
		"a call of a type": {"\x80\x03}cnumpy\nndarray\n)R.", "no function of NumPy"},
		"an object array":  {"\x80\x03}cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R.", "no whole number"},
		"big dimensions":   {"\x80\x03}cnumpy.core.multiarray\n_reconstruct\n)R(K\x01J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R\x89C\x01xtb.", "in 1 bytes"},
	} {
		_, err := readPickle(strings.NewReader(c.pickle), int64(len(c.pickle)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in: %v", name, c.want, err)
		}
	}
}

// Batches of protocol 0 and 1 are found, and it is said how to save them anew.
func TestOldPicklesAreNamed(t *testing.T) {
	t.Parallel()
	for _, b := range []string{
		"(dp0\nS'data'\np1\nI1\nsS'labels'\np2\n(lp3\nI0\nas.", // Python 2, protocol 0
		"(dp0\nVdata\np1\nI1\ns.",
		"}q\x00(X\x04\x00\x00\x00dataq\x01K\x01X\x06\x00\x00\x00labelsq\x02]q\x03K\x00au.", // protocol 1
	} {
		for _, set := range []string{"cifar10", "cifar100", "imagenet32"} {
			name := map[string]string{"cifar10": "cifar-10-batches-py/data_batch_1", "cifar100": "cifar-100-python/train", "imagenet32": "imagenet32/train_data_batch_1"}[set]
			_, err := Open(set, Options{Dir: put(t, entry{name, []byte(b)})})
			refused(t, err, []string{name, "protocol 0 or 1", "protocol=4"})
		}
	}
}

func FuzzPickle(f *testing.F) {
	y, x, _ := cifarRows(2, 10)
	for proto := byte(2); proto <= 5; proto++ {
		f.Add(pickleBatch(proto, "labels", y, 2, x[:20]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := readPickle(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for k, v := range d {
			a, ok := v.(*ndarray)
			if !ok {
				continue
			}
			n := int64(a.typ[len(a.typ)-1] - '0')
			for _, d := range a.dims {
				n *= int64(d)
			}
			if n < 1 || a.at < 0 || a.at+n > int64(len(b)) {
				t.Fatalf("array %q of %v lies at %d of %d bytes", k, a.dims, a.at, len(b))
			}
		}
	})
}
