package data

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// tabled is implemented by sets of one's own numbers.
type tabled interface {
	tables(Options) (train, test *unscaled, notes []string, err error)
}

// Describe reports where a set is. Of a set of one's own files, which a spec names, it
// counts samples, classes and features, and reports how the files were understood;
// tables and arrays are read, pictures are counted and not decoded.
func Describe(name string, o Options) (Report, error) {
	set, err := Sets.Parse(name)
	if err != nil {
		return Report{}, err
	}
	if _, own := set.(owned); own {
		return checkYours(set, o, false)
	}
	loc, err := Locate(name, o)
	return Report{Location: loc}, err
}

// checkYours is Check of a set of one's own files; with thorough false, Describe.
func checkYours(set Set, o Options, thorough bool) (Report, error) {
	out := Report{Location: Location{Name: Sets.Spec(set), Origin: Yours, Found: true}}
	var err error
	switch s := set.(type) {
	case PictureFolder:
		err = s.check(o, &out, thorough)
	case tabled:
		var train, test *unscaled
		if train, test, out.Notes, err = s.tables(o); err == nil {
			err = checkTables(train, test, &out, thorough)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "data: ") {
			err = fmt.Errorf("data: %s: %w", Sets.Name(set), err)
		}
	default:
		var ds sgd.Dataset
		if ds, err = set.Open(o); err == nil {
			out.Samples = ds.Train.Len() + ds.Test.Len()
			out.Findings = []Finding{{What: "training samples", Count: ds.Train.Len()}, {What: "test samples", Count: ds.Test.Len()}, {What: "classes", Count: ds.Train.Sample().Classes}}
			if ds.Note != "" {
				out.Notes = []string{ds.Note}
			}
		}
	}
	return out, err
}

// classFindings counts the samples of two parts by class.
func classFindings(parts [2][]int, name func(y int) string, unit string) []Finding {
	var total [2]int
	var sizes []string
	for y := range parts[0] {
		total[0], total[1] = total[0]+parts[0][y], total[1]+parts[1][y]
		sizes = append(sizes, fmt.Sprintf("%s: %d + %d", name(y), parts[0][y], parts[1][y]))
	}
	used := 0
	for y := range parts[0] {
		used += min(1, parts[0][y]+parts[1][y])
	}
	classes := Finding{What: "classes", Count: len(sizes), Note: "training + test " + unit + " of each", Names: firstTen(sizes)}
	if used < 2 {
		classes.Problem, classes.Do = true, "label samples of two classes or more, or name the column that does"
	}
	return []Finding{{What: "training " + unit, Count: total[0]}, {What: "test " + unit, Count: total[1]}, classes}
}

// checkTables looks at samples of numbers; unless thorough, it draws none and searches
// no twins.
func checkTables(train, test *unscaled, out *Report, thorough bool) error {
	if train.sh != test.sh {
		return fmt.Errorf("training samples are %s, test samples %s", train.sh, test.sh)
	}
	cls := max(train.cls, test.cls)
	train.cls, test.cls = cls, cls
	groups, err := spreads(train, test, 1)
	if err != nil {
		return err
	}
	out.Samples = len(train.y) + len(test.y)
	out.Notes = append(out.Notes, classNotes(train, test)...)
	out.Findings = classFindings([2][]int{train.counts(), test.counts()}, train.className, "samples")
	out.Findings = append(out.Findings, Finding{What: "numbers a sample", Count: train.sh.Len(), Note: strings.TrimSuffix(train.sh.String()+": "+listed(train.features), ": ")})
	var still []string
	for k, g := range groups {
		if g.least == g.most {
			still = append(still, fmt.Sprintf("%d: %g", k+1, g.least))
		}
	}
	if len(still) > 0 {
		out.Findings = append(out.Findings, Finding{What: "numbers that never change", Count: len(still), Note: "in training; they are 0 with scale=standard", Names: firstTen(still)})
	}
	if !thorough {
		return nil
	}
	if n := leaked(train, test); n > 0 {
		out.Findings = append(out.Findings, Finding{What: "test samples that are trained on", Count: n, Note: "accuracy is too high by them"})
	}
	x := make([]float64, train.sh.Len())
	for _, i := range drawn(len(train.y)) {
		train.row(i, x)
		var some []string
		for _, v := range x[:min(len(x), 8)] {
			some = append(some, strconv.FormatFloat(v, 'g', 6, 64))
		}
		if len(x) > len(some) {
			some = append(some, "…")
		}
		out.Drawn = append(out.Drawn, fmt.Sprintf("training sample %d, class %s: %s", i, train.className(int(train.y[i])), strings.Join(some, ", ")))
		if sh := train.sh; sh.H > 3 && sh.W > 3 {
			out.Drawn = append(out.Drawn, shades(sh.W, sh.H, func(px, py int) float64 { return x[py*sh.W+px] })...)
		}
	}
	return nil
}

// leaked counts the test samples that are equal to a training sample.
func leaked(train, test *unscaled) (n int) {
	seed, x := maphash.MakeSeed(), make([]float64, train.sh.Len())
	var b []byte
	sum := func(t *unscaled, i int) uint64 {
		t.row(i, x)
		b = b[:0]
		for _, v := range x {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		return maphash.Bytes(seed, b)
	}
	seen := make(map[uint64]bool, len(train.y))
	for i := range train.y {
		seen[sum(train, i)] = true
	}
	for i := range test.y {
		if seen[sum(test, i)] {
			n++
		}
	}
	return n
}

// drawn picks three of n samples, the same each time.
func drawn(n int) (out []int) {
	for k := range min(n, 3) {
		out = append(out, rng.New(0, "check").Permute(k, n))
	}
	return out
}

// shades draws a plane of w×h values with letters, the least as a blank.
func shades(w, h int, at func(x, y int) float64) (lines []string) {
	const wide, high, ink = 32, 16, " .:-=+*#%@"
	across, down := min(w, wide), min(h, high)
	least, most := math.Inf(1), math.Inf(-1)
	for y := range h {
		for x := range w {
			least, most = min(least, at(x, y)), max(most, at(x, y))
		}
	}
	for y := range down {
		var line strings.Builder
		for x := range across {
			k := 0
			if most > least {
				k = int(float64(len(ink)-1) * (at(x*w/across, y*h/down) - least) / (most - least))
			}
			line.WriteByte(ink[k])
		}
		lines = append(lines, "  "+line.String())
	}
	return lines
}

// check counts pictures by class and, if thorough, reads and decodes every one.
func (s PictureFolder) check(o Options, out *Report, thorough bool) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("data: pictures: %w", err)
	}
	at, err := ownPath("pictures", s.Path, o)
	if err != nil {
		return err
	}
	out.Path = at
	r := &recipe{name: "pictures"}
	t, err := openTree(at, true, o.indices(), r.unpacking(o))
	if err != nil {
		return fmt.Errorf("data: pictures: %w", err)
	}
	defer t.Close()
	parts, classes, err := t.imageFolder(s.Test)
	if err != nil {
		return fmt.Errorf("data: pictures: %w", t.why(err))
	}
	list := slices.Concat(parts[0], parts[1])
	c := &checked{list: list, train: len(parts[0]), look: make([]string, len(list)), why: make([]error, len(list)), sum: make([][16]byte, len(list))}
	if thorough {
		t.each(list, r.newWork(o, checking, "", pictureUnit, int64(len(list))), c.picture)
	}
	out.Samples, out.Unread = len(list), len(c.named(unread))
	sizes := [2][]int{make([]int, len(classes)), make([]int, len(classes))}
	for p, list := range parts {
		for _, l := range list {
			sizes[p][l.label]++
		}
	}
	out.Findings = classFindings(sizes, func(y int) string { return classes[y] }, "pictures")
	if t.divided {
		out.Notes = append(out.Notes, fmt.Sprintf("%d pictures are held back for testing, a share of %g of each class", len(parts[1]), s.Test))
	}
	out.Notes = append(out.Notes, t.notRead()...)
	if !thorough {
		return nil
	}
	for _, f := range c.findings(false) {
		if f.What != asPNG+" pictures" { // as usual as others
			out.Findings = append(out.Findings, f)
		}
	}
	for _, i := range drawn(len(list)) {
		l := list[i]
		raw, err := t.read(l.file)
		if err != nil {
			continue // it is among the broken ones
		}
		img, err := decodeImage(raw)
		if err != nil {
			continue
		}
		b := img.Bounds()
		out.Drawn = append(out.Drawn, fmt.Sprintf("%s, class %s: %d×%d", l.path(), classes[l.label], b.Dx(), b.Dy()))
		out.Drawn = append(out.Drawn, shades(b.Dx(), b.Dy(), func(x, y int) float64 { return grey8(img, b.Min.X+x, b.Min.Y+y) })...)
	}
	return nil
}

// grey8 is how bright a pixel is.
func grey8(img image.Image, x, y int) float64 {
	g, _ := color.GrayModel.Convert(img.At(x, y)).(color.Gray)
	return float64(g.Y)
}

// notRead lists the files that were left out.
func (t *tree) notRead() (out []string) {
	for _, why := range t.tables {
		out = append(out, "left out: "+why)
	}
	if note := t.leftOut(); note != "" {
		out = append(out, note)
	}
	return out
}
