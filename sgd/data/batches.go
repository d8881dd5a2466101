package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// Batches as Python saves them: an array "data" of bytes with a picture a row
// (red, green, blue, each row by row) and as many "labels". CIFAR's are pickles
// (cifar-10-batches-py, as torchvision keeps it), those of downsampled ImageNet
// pickles or .npz.

// batchFile is a file of pictures; the bytes stay in it.
type batchFile struct {
	name  string // in the tree
	in    io.ReaderAt
	at    int64 // where the first picture lies
	width int   // bytes of a picture
	label []int32
	fine  bool // the labels are CIFAR-100's fine ones
}

// random makes a file's content readable at random: in place where it is stored as
// it is, else unpacked into memory.
func (t *tree) random(f *file) (io.ReaderAt, int64, error) {
	switch v := f.in.(type) {
	case section:
		return io.NewSectionReader(v.File, f.at, f.size), f.size, nil
	case folder:
		in, err := v.Open(filepath.FromSlash(f.name))
		if err != nil {
			return nil, 0, t.wrap(f.path(), err)
		}
		_, packed, err := unwrap(in)
		st, serr := in.Stat()
		if err != nil || packed || serr != nil {
			in.Close()
			break
		}
		t.close = append(t.close, in)
		return in, st.Size(), nil
	case zipped:
		if r, n, ok := v.stored(f); ok {
			return r, n, nil
		}
	}
	b, err := t.read(f)
	return bytes.NewReader(b), int64(len(b)), err
}

// batches reads what there is of such files, training and test.
func (t *tree) batches() (parts [2][]batchFile, err error) {
	add := func(b *batchFile, err error) error {
		if b != nil && err == nil {
			p := max(0, partOf(b.name))
			parts[p] = append(parts[p], *b)
		}
		return err
	}
	for _, f := range t.of(pickleKind) {
		if err := add(t.pickled(f)); err != nil {
			return parts, err
		}
	}
	arrays := map[string]map[string]*file{} // by archive and name
	var order []string
	for _, f := range t.of(npyKind) {
		if path.Ext(f.from) != ".npz" {
			continue
		}
		if arrays[f.from] == nil {
			arrays[f.from] = map[string]*file{}
			order = append(order, f.from)
		}
		arrays[f.from][path.Base(f.name)] = f
	}
	slices.Sort(order)
	for _, from := range order {
		if err := add(t.npz(from, arrays[from])); err != nil {
			return parts, err
		}
	}
	for p, what := range [2]string{"training", "test"} {
		if len(parts[p]) == 0 {
			return parts, fmt.Errorf("%s: the %s part is missing: there are %d files of batches of the other", t.root, what, len(parts[1-p]))
		}
	}
	return parts, nil
}

// pickled reads a pickle's lists; nil if it is not of pictures.
func (t *tree) pickled(f *file) (*batchFile, error) {
	in, size, err := t.random(f)
	if err != nil {
		return nil, err
	}
	d, err := readPickle(in, size)
	if errors.Is(err, errOldPickle) && strings.Contains(path.Base(f.name), "meta") {
		return nil, nil // names of classes
	}
	if err != nil {
		return nil, t.wrap(f.path(), err)
	}
	if _, ok := d["data"]; !ok {
		return nil, nil // names of classes
	}
	data, _ := d["data"].(*ndarray)
	b := &batchFile{name: f.path(), in: in}
	labels, fine := d["fine_labels"]
	if b.fine = fine; !fine {
		labels = d["labels"]
	}
	switch l := labels.(type) {
	case []any:
		for _, v := range l {
			y, ok := v.(int64)
			if !ok || y < 0 || y >= maxClasses {
				return nil, t.wrap(f.path(), fmt.Errorf("label %d is %v; want whole numbers from 0", len(b.label), v))
			}
			b.label = append(b.label, int32(y))
		}
	case *ndarray:
		if b.label, err = readLabels(in, l); err != nil {
			return nil, t.wrap(f.path(), err)
		}
	}
	return b, t.wrap(f.path(), b.place(data))
}

// npz reads the labels of a pair of arrays.
func (t *tree) npz(from string, arrays map[string]*file) (*batchFile, error) {
	b := &batchFile{name: from}
	var data *ndarray
	want := []string{"data.npy", "labels.npy"}
	for _, name := range want {
		if arrays[name] == nil {
			return nil, t.wrap(from, fmt.Errorf("no array %q in it", stem(name)))
		}
	}
	for _, name := range want {
		f := arrays[name]
		in, size, err := t.random(f)
		if err != nil {
			return nil, err
		}
		head := make([]byte, min(size, 1<<12))
		if _, err := io.ReadFull(io.NewSectionReader(in, 0, size), head); err != nil {
			return nil, t.wrap(f.path(), err)
		}
		a, err := npyHeader(head, size)
		if err != nil {
			return nil, t.wrap(f.path(), err)
		}
		if name == "data.npy" {
			b.in, data = in, a
		} else if b.label, err = readLabels(in, a); err != nil {
			return nil, t.wrap(f.path(), err)
		}
	}
	return b, t.wrap(from, b.place(data))
}

// place checks the array of pictures against the labels.
func (b *batchFile) place(a *ndarray) error {
	switch {
	case a == nil || a.typ[len(a.typ)-2:] != "u1" || len(a.dims) != 2:
		return fmt.Errorf(`want "data", an array of bytes with a picture a row`)
	case len(b.label) != a.dims[0]:
		return fmt.Errorf("%d labels for %d pictures", len(b.label), a.dims[0])
	}
	b.at, b.width = a.at, a.dims[1]
	return nil
}

// readLabels reads an array of whole numbers from 0.
func readLabels(in io.ReaderAt, a *ndarray) ([]int32, error) {
	n := 1
	for _, d := range a.dims {
		n *= d
	}
	read, each := npyTypes[a.typ[len(a.typ)-2:]], int(a.typ[len(a.typ)-1]-'0')
	var order binary.ByteOrder = binary.LittleEndian
	if a.typ[0] == '>' {
		order = binary.BigEndian
	}
	raw := make([]byte, n*each)
	if err := readAt(in, raw, a.at); err != nil {
		return nil, err
	}
	out := make([]int32, n)
	for i := range out {
		v := read(order, raw[i*each:])
		if v != float64(int32(v)) || v < 0 || v >= maxClasses {
			return nil, fmt.Errorf("label %d is %v; want whole numbers from 0", i, v)
		}
		out[i] = int32(v)
	}
	return out, nil
}

// readAt fills b from at on.
func readAt(in io.ReaderAt, b []byte, at int64) error {
	n, err := in.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// loadBatches reads CIFAR's pickles into memory.
func (t *tree) loadBatches(r *recipe) (l loaded, err error) {
	parts, err := t.batches()
	if err != nil {
		return l, err
	}
	for p, list := range parts {
		m := &images{sh: r.shape, cls: r.classes}
		for _, b := range list {
			if b.fine != (r.classes == 100) || b.width != r.shape.Len() {
				return l, t.wrap(b.name, fmt.Errorf("not %s: rows of %d bytes, fine labels %v", r.name, b.width, b.fine))
			}
			at := len(m.pix)
			m.pix = append(m.pix, make([]byte, len(b.label)*b.width)...)
			if err := readAt(b.in, m.pix[at:], b.at); err != nil {
				return l, t.wrap(b.name, err)
			}
			m.label = append(m.label, b.label...)
		}
		l.parts[p] = m
	}
	return l, nil
}

// filed serves the pictures of batches from their files, a read each: the pages of
// a file that is much used are in memory anyway.
type filed struct {
	files []batchFile
	ends  []int // number of pictures up to the end of each file
	sh    sgd.Shape
	cls   int
	view
}

func (s *filed) len() int         { return s.ends[len(s.ends)-1] }
func (s *filed) form() sgd.Sample { return sgd.Sample{Shape: s.sh, Classes: s.cls} }

func (s *filed) read(i int, j jitter, to Item) (err error) {
	c := canvases.Get().(*canvas)
	defer canvases.Put(c)
	c.pix = grow(c.pix, s.sh.Len())
	if to.Y[0], err = s.raw(i, c.pix); err == nil {
		s.write(i, to.X, c.pix, s.sh, j)
	}
	return err
}

// raw reads picture i as it is stored, and its label.
func (s *filed) raw(i int, pix []byte) (int32, error) {
	f := sort.SearchInts(s.ends, i+1)
	b := &s.files[f]
	i -= s.ends[f] - len(b.label)
	if err := readAt(b.in, pix, b.at+int64(i)*int64(len(pix))); err != nil {
		return 0, fmt.Errorf("%s: picture %d: %w", b.name, i, err)
	}
	return b.label[i], nil
}

// fileBatches makes the stores of downsampled ImageNet. Its labels begin with 1.
func (t *tree) fileBatches(r *recipe) (stores [2]*filed, err error) {
	parts, err := t.batches()
	if err != nil {
		return stores, err
	}
	base := int32(1)
	for _, b := range slices.Concat(parts[0], parts[1]) {
		if b.width != r.shape.Len() {
			return stores, t.wrap(b.name, fmt.Errorf("rows of %d bytes, want %d: pictures of %s", b.width, r.shape.Len(), r.shape))
		}
		if slices.Contains(b.label, 0) {
			base = 0
		}
	}
	for p, list := range parts {
		s := &filed{files: list, sh: r.shape, cls: r.classes}
		n := 0
		for _, b := range list {
			for i := range b.label {
				if b.label[i] -= base; int(b.label[i]) >= r.classes {
					return stores, t.wrap(b.name, fmt.Errorf("label %d is %d; want %d to %d", i, b.label[i]+base, base, int(base)+r.classes-1))
				}
			}
			n += len(b.label)
			s.ends = append(s.ends, n)
		}
		stores[p] = s
	}
	return stores, nil
}

// sampled identifies the pictures without reading gigabytes: their labels, and
// every thousandth picture.
func sampled(stores [2]*filed) (uint64, error) {
	h := fnv.New64a()
	for p, s := range stores {
		fmt.Fprintf(h, "%d %s %d %d\n", p, s.sh, s.cls, s.len())
		var word [4]byte
		for _, b := range s.files {
			for _, y := range b.label {
				binary.LittleEndian.PutUint32(word[:], uint32(y))
				h.Write(word[:])
			}
		}
		pix := make([]byte, s.sh.Len())
		for i := 0; i < s.len(); i += 1000 {
			if _, err := s.raw(i, pix); err != nil {
				return 0, err
			}
			h.Write(pix)
		}
	}
	return h.Sum64(), nil
}

// checkBatches reads every picture of batches, and tells loc how many there are or what is
// wrong.
func (r *recipe) checkBatches(t *tree, loc *Location, o Options, broken func(path string, why error)) {
	stores, err := t.fileBatches(r)
	if err != nil {
		broken(loc.Path, err)
		return
	}
	loc.Samples = stores[0].len() + stores[1].len()
	w := r.newWork(o, checking, "", pictureUnit, int64(loc.Samples))
	pix := make([]byte, r.shape.Len())
	for _, s := range stores {
		for i := range s.len() {
			if _, err := s.raw(i, pix); err != nil {
				broken(loc.Path, err)
			}
			w.add(1)
		}
	}
}
