package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Sets of people's own files: numbers and a label for each sample. Where there is
// one file of samples, a share of each class, picked by a fixed permutation, is the
// test set. With scale=standard every feature, or every channel of pictures, has
// mean 0 and deviation 1 over the training samples; one that never changes is 0.

// owned is implemented by sets of the user's own files.
type owned interface{ own() }

// unscaled is samples of numbers as their file has them, before they are scaled.
type unscaled struct {
	sh       sgd.Shape
	cls      int
	names    []string // of classes; nil: they are numbers, from 0
	features []string // names of the numbers of a sample; nil: they have none
	y        []int32
	row      func(i int, x []float64) // writes the sh.Len() numbers of sample i
}

// floats is samples of numbers in memory, in the order of their file.
type floats struct {
	sh  sgd.Shape
	cls int
	x   []float32 // len(y) · sh.Len()
	y   []int32
}

func (f *floats) len() int         { return len(f.y) }
func (f *floats) form() sgd.Sample { return sgd.Sample{Shape: f.sh, Classes: f.cls} }

func (f *floats) read(i int, _ jitter, to Item) error {
	dim := f.sh.Len()
	copy(to.X, f.x[i*dim:(i+1)*dim])
	to.Y[0] = f.y[i]
	return nil
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
	looked := "the current folder"
	if at, err := os.Getwd(); err == nil {
		looked += " " + at
	}
	if o.Dir != "" && !filepath.IsAbs(path) {
		below := filepath.Join(o.Dir, path)
		if exists(below) {
			return below, nil
		}
		looked = "the folder of data sets " + o.Dir + ", then in " + looked
	}
	_, err := os.Stat(path)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(path):
		return "", fmt.Errorf("data: %s: there is no %s; looked in %s", set, path, looked)
	default:
		return "", fmt.Errorf("data: %s: %w", set, err)
	}
	return path, nil
}

// ReaderOf returns spec text of the set that reads a file of such a name, "" if none does.
func ReaderOf(path string) string {
	base := strings.ToLower(path)
	for _, packed := range []string{".gz", ".zst"} {
		base = strings.TrimSuffix(base, packed)
	}
	switch filepath.Ext(base) {
	case ".csv", ".tsv":
		return fmt.Sprintf("csv(path=%s,label=…)", path)
	case ".npy":
		return fmt.Sprintf("npy(path=%s)", filepath.Dir(path))
	case ".txt":
		return fmt.Sprintf("text(path=%s)", path)
	case ".bin":
		return fmt.Sprintf("text(path=%s,tokens=bpe(path=…))", path)
	case ".tar", ".zip", ".parquet":
		return fmt.Sprintf("pictures(path=%s)", path)
	}
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// split picks a share of each class for the test set, one at least of a class
// with two samples or more.
func (t *unscaled) split(share float64) (train, test *unscaled) {
	count := t.counts()
	var rows [2][]int
	var y [2][]int32
	seen := make([]int, t.cls)
	for i, c := range t.y {
		to := 0
		if testOf(count[c], share, rng.New(0, "own-split").With(uint64(c)))(seen[c]) {
			to = 1
		}
		seen[c]++
		rows[to], y[to] = append(rows[to], i), append(y[to], c)
	}
	part := func(p int) *unscaled {
		return &unscaled{sh: t.sh, cls: t.cls, names: t.names, features: t.features, y: y[p], row: func(i int, x []float64) { t.row(rows[p][i], x) }}
	}
	return part(0), part(1)
}

// counts returns how many samples each class has.
func (t *unscaled) counts() []int {
	out := make([]int, t.cls)
	for _, y := range t.y {
		out[y]++
	}
	return out
}

// used returns the classes of which this part or another has a sample.
func (t *unscaled) used(other *unscaled) (out []int) {
	in, of := t.counts(), other.counts()
	for y := range in {
		if in[y]+of[y] > 0 {
			out = append(out, y)
		}
	}
	return out
}

// className is how a class is called.
func (t *unscaled) className(y int) string {
	if t.names == nil {
		return strconv.Itoa(y)
	}
	return t.names[y]
}

// spread is the mean and the deviation of a group of numbers: a feature, or a channel
// of pictures; and the least and the largest of them.
type spread struct{ mean, std, least, most float64 }

// spreads measures the groups of the training part, which are plane numbers long, and
// refuses numbers that are not finite in either part.
func spreads(train, test *unscaled, plane int) ([]spread, error) {
	dim := train.sh.Len()
	g := make([]spread, dim/plane)
	for i := range g {
		g[i].least, g[i].most = math.Inf(1), math.Inf(-1)
	}
	n := float64(len(train.y) * plane)
	x := make([]float64, dim)
	for p, t := range []*unscaled{train, test} {
		for i := range t.y {
			t.row(i, x)
			for k, v := range x {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return nil, fmt.Errorf("%s sample %d holds %v; want finite numbers", partNames[p], i, v)
				}
				if p == 0 {
					s := &g[k/plane]
					s.mean, s.least, s.most = s.mean+v, min(s.least, v), max(s.most, v)
				}
			}
		}
	}
	for i := range g {
		if g[i].mean /= n; g[i].least == g[i].most { // whatever the sum was rounded to
			g[i].mean = g[i].least
		}
	}
	for i := range train.y {
		train.row(i, x)
		for k, v := range x {
			d := v - g[k/plane].mean
			g[k/plane].std += float64(d*d) / n
		}
	}
	for i := range g {
		g[i].std = math.Sqrt(g[i].std)
	}
	return g, nil
}

var partNames = [2]string{"training", "test"}

// scaled is a part as float32, scaled in float64 before it is rounded: numbers that are
// large in proportion to their differences keep those.
func (t *unscaled) scaled(part, scale string, plane int, groups []spread) (*floats, error) {
	dim := t.sh.Len()
	f := &floats{sh: t.sh, cls: t.cls, y: t.y, x: make([]float32, len(t.y)*dim)}
	x := make([]float64, dim)
	for i := range t.y {
		t.row(i, x)
		for k, v := range x {
			switch s := groups[k/plane]; {
			case scale == "none":
			case s.std > 0:
				v = (v - s.mean) / s.std
			default:
				v = 0
			}
			w := float32(v)
			if math.IsInf(float64(w), 0) {
				return nil, fmt.Errorf("%s sample %d holds %g with scale=%s; want numbers up to %g", part, i, v, scale, math.MaxFloat32)
			}
			f.x[i*dim+k] = w
		}
	}
	return f, nil
}

// serve makes the data set of two parts. Its note joins the reader's notes with
// those on classes and numbers.
func serve(train, test *unscaled, scale string, o Options, notes ...string) (ds sgd.Dataset, err error) {
	if train.sh != test.sh {
		return ds, fmt.Errorf("training samples are %s, test samples %s", train.sh, test.sh)
	}
	cls := max(train.cls, test.cls)
	train.cls, test.cls = cls, cls
	for p, t := range []*unscaled{train, test} {
		if len(t.y) == 0 {
			return ds, fmt.Errorf("no %s samples", partNames[p])
		}
	}
	if used := train.used(test); len(used) == 1 {
		return ds, fmt.Errorf("all %d samples are of class %s; want two classes or more", len(train.y)+len(test.y), train.className(used[0]))
	}
	plane := 1
	if train.sh.H > 1 {
		plane = train.sh.H * train.sh.W
	}
	groups, err := spreads(train, test, plane)
	if err != nil {
		return ds, err
	}
	var parts [2]*floats
	for p, t := range []*unscaled{train, test} {
		if parts[p], err = t.scaled(partNames[p], scale, plane, groups); err != nil {
			return ds, err
		}
	}
	notes = append(notes, classNotes(train, test)...)
	if scale == "none" {
		notes = append(notes, lostNotes(groups)...)
	}
	ds = dataset(parts[0], parts[1], o, false)
	ds.Hash, ds.Note = digestFloats(parts[0], parts[1]), strings.Join(notes, "; ")
	return ds, nil
}

// classNotes notes classes without training samples: those that the test set alone has,
// and numbers that no label is.
func classNotes(train, test *unscaled) (out []string) {
	in, of := train.counts(), test.counts()
	var alone, none []string
	for y := range in {
		switch {
		case in[y] == 0 && of[y] == 0:
			none = append(none, train.className(y))
		case in[y] == 0:
			alone = append(alone, train.className(y))
		}
	}
	if len(alone) > 0 {
		out = append(out, fmt.Sprintf("the test set alone has %s of class %s", count(sumOf(of, in), "sample"), listed(alone)))
	}
	if len(none) > 0 {
		out = append(out, fmt.Sprintf("no sample has label %s, of the %d classes that the labels 0 to %d make", listed(none), len(in), len(in)-1))
	}
	if n := len(test.y); n < 10 {
		out = append(out, fmt.Sprintf("the test set has %s: accuracy goes in steps of %.2g points", count(n, "sample"), 100/float64(n)))
	}
	if n, most := len(train.y)+len(test.y), len(in)-len(none); most > max(10, n/10) {
		out = append(out, fmt.Sprintf("%d classes in %d samples: every value of the label is a class", most, n))
	}
	return out
}

// sumOf adds up the counts of classes that another part has none of.
func sumOf(of, without []int) (n int) {
	for y, c := range of {
		if without[y] == 0 {
			n += c
		}
	}
	return n
}

// lostNotes notes features that differ in float64 and are constant in float32.
func lostNotes(groups []spread) []string {
	var lost []string
	for k, s := range groups {
		if s.least != s.most && float32(s.least) == float32(s.most) {
			lost = append(lost, strconv.Itoa(k+1))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the values of feature %s are one number in float32; scale=standard keeps their differences", listed(lost))}
}

// listed names up to ten things.
func listed(names []string) string {
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
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
