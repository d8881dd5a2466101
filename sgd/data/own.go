package data

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Sets of people's own files: numbers and a label for each sample. Where there is
// one file of samples, a share of each class, picked by a fixed permutation, is the
// test set. With scale=standard every feature, or every channel of pictures, has
// mean 0 and deviation 1 over the training samples; one that never changes is 0.

// owned is implemented by sets of the user's own files.
type owned interface{ own() }

// floats is samples of numbers in memory, in the order of their file.
type floats struct {
	sh    sgd.Shape
	cls   int
	x     []float32 // len(y) · sh.Len()
	y     []int32
	names []string // of classes, if they are not numbers
}

func (f *floats) len() int         { return len(f.y) }
func (f *floats) shape() sgd.Shape { return f.sh }
func (f *floats) classes() int     { return f.cls }

func (f *floats) read(i int, _ jitter, x []float32) (int32, error) {
	dim := f.sh.Len()
	copy(x, f.x[i*dim:(i+1)*dim])
	return f.y[i], nil
}

func checkOwn(test float64, scale string) error {
	if scale != "standard" && scale != "none" {
		return fmt.Errorf("option \"scale\": want standard or none, not %q", scale)
	}
	if !(test > 0 && test < 1) {
		return fmt.Errorf("option \"test\": want a share between 0 and 1, not %g", test)
	}
	return nil
}

// ownPath is where a path of a spec is: below the folder of data sets if it is
// there, else as it is.
func ownPath(set, path string, o Options) (string, error) {
	if path == "" {
		return "", fmt.Errorf("data: %s: say where the files are: data=%s(path=…)", set, set)
	}
	if o.Dir != "" && !filepath.IsAbs(path) {
		if below := filepath.Join(o.Dir, path); exists(below) {
			return below, nil
		}
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("data: %s: %w", set, err)
	}
	return path, nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// split picks a share of each class for the test set, one at least of a class
// with two samples or more.
func (f *floats) split(share float64) (train, test *floats) {
	count := make([]int, f.cls)
	for _, y := range f.y {
		count[y]++
	}
	train, test = &floats{sh: f.sh, cls: f.cls, names: f.names}, &floats{sh: f.sh, cls: f.cls, names: f.names}
	dim := f.sh.Len()
	seen := make([]int, f.cls)
	for i, y := range f.y {
		to := train
		if testOf(count[y], share, rng.New(0, "own-split").With(uint64(y)))(seen[y]) {
			to = test
		}
		seen[y]++
		to.x, to.y = append(to.x, f.x[i*dim:(i+1)*dim]...), append(to.y, y)
	}
	return train, test
}

// standardize scales both parts by the mean and deviation of the training part:
// by channel of pictures, else by feature.
func standardize(train, test *floats) {
	plane := 1
	if train.sh.H > 1 {
		plane = train.sh.H * train.sh.W
	}
	dim := train.sh.Len()
	groups := dim / plane
	mean, std := make([]float64, groups), make([]float64, groups)
	n := float64(len(train.y) * plane)
	for i, v := range train.x {
		mean[i%dim/plane] += float64(v)
	}
	for g := range mean { // of equal values exactly that value
		mean[g] /= n
	}
	for i, v := range train.x {
		d := float64(v) - mean[i%dim/plane]
		std[i%dim/plane] += d * d / n
	}
	for _, p := range []*floats{train, test} {
		for i, v := range p.x {
			g := i % dim / plane
			p.x[i] = 0
			if s := math.Sqrt(std[g]); s > 0 {
				p.x[i] = float32((float64(v) - mean[g]) / s)
			}
		}
	}
}

// serve makes the data set of two parts.
func serve(train, test *floats, scale string, o Options) (ds sgd.Dataset, err error) {
	if train.sh != test.sh {
		return ds, fmt.Errorf("training samples are %s, test samples %s", train.sh, test.sh)
	}
	cls := max(train.cls, test.cls)
	train.cls, test.cls = cls, cls
	for p, f := range []*floats{train, test} {
		part := [2]string{"training", "test"}[p]
		if len(f.y) == 0 {
			return ds, fmt.Errorf("no %s samples", part)
		}
		for i, v := range f.x {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return ds, fmt.Errorf("%s sample %d holds %v; want finite numbers", part, i/f.sh.Len(), v)
			}
		}
	}
	if scale == "standard" {
		standardize(train, test)
	}
	ds = dataset(train, test, o, false)
	ds.Hash = digestFloats(train, test)
	return ds, nil
}

// digestFloats is digest for samples of numbers.
func digestFloats(parts ...*floats) uint64 {
	a, b := crc32.New(castagnoli), crc32.NewIEEE()
	buf := make([]byte, 0, 1<<16)
	flush := func() { a.Write(buf); b.Write(buf); buf = buf[:0] }
	put := func(v uint32) {
		if buf = binary.LittleEndian.AppendUint32(buf, v); len(buf) > 1<<16-8 {
			flush()
		}
	}
	for _, f := range parts {
		for _, v := range []int{f.sh.C, f.sh.H, f.sh.W, f.cls, len(f.y)} {
			put(uint32(v))
		}
		for _, y := range f.y {
			put(uint32(y))
		}
		for _, x := range f.x {
			put(math.Float32bits(x))
		}
	}
	flush()
	return uint64(a.Sum32())<<32 | uint64(b.Sum32())
}

// number makes classes of labels: those that are texts are numbered by name.
func number(labels []string) (y []int32, names []string) {
	names = slices.Clone(labels)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, l := range labels {
		i, _ := slices.BinarySearch(names, l)
		y = append(y, int32(i))
	}
	return y, names
}
