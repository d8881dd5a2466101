package data

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Pictures in Parquet, as Hugging Face's datasets keeps them: a column of structures
// with the bytes of a picture file (image.bytes, img.bytes), or of the bytes alone, and a
// column label of whole numbers, bools or names. Files are named after their split, such
// as data/train-00000-of-00002.parquet. A value cannot be read without its page, so the
// pages are held in memory.

// Names of columns that hold pictures, and of those that hold labels: of these the first
// that there is.
var (
	pictureNames = []string{"image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "bmp"}
	labelColumns = []string{"label", "labels", "fine_label", "class", "cls", "target", "y"}
)

// addParquet adds the pictures of a Parquet file; a table without any is left out, and
// why is kept.
func (t *tree) addParquet(from string, f *os.File, size int64) (err error) {
	pf, err := openParquet(f, size)
	if err != nil {
		return err
	}
	image, label, err := pf.pictureColumns()
	if err != nil {
		var without noPictures
		if errors.As(err, &without) {
			t.tables = append(t.tables, fmt.Sprintf("%s: %v", from, err))
			return nil
		}
		return err
	}
	if pf.rows > maxFiles {
		return fmt.Errorf("%d pictures, more than %d", pf.rows, maxFiles)
	}
	var w *work
	if t.work != nil {
		w = t.work(from, size)
		defer w.end()
	}
	p := &parquetPictures{tree: t, from: from, held: &blobs{}, names: map[string]string{}, work: w,
		name: strings.ReplaceAll(strings.TrimSuffix(from, path.Ext(from)), "/", "_"), label: pf.columns[label].title()}
	if err := pf.groups([]int{image, label}, func(chunks []chunk) error { return p.group(pf, chunks[0], chunks[1]) }); err != nil {
		return err
	}
	return t.addAll(p.list)
}

// parquetPictures is the pictures of a file as they are read.
type parquetPictures struct {
	tree       *tree
	from, name string
	label      string            // its column
	names      map[string]string // of classes, by themselves: each is held once
	held       *blobs
	list       []file
	work       *work
}

// group adds the pictures of a group of rows.
func (p *parquetPictures) group(pf *parquetFile, image, label chunk) error {
	classes := make([]string, 0, label.rows)
	err := pf.each(label, func(int64) error { return nil }, func(c cell) error {
		const said = "row %d: column %s is %v; want whole numbers from 0, bools or names"
		row := len(p.list) + len(classes)
		class, missing, err := classText(c, label.col.kind)
		switch {
		case err != nil:
			return fmt.Errorf(said, row, p.label, err)
		case missing != "":
			p.tree.unclassed(p.from, fmt.Sprintf(said, row, p.label, missing))
		}
		if known, ok := p.names[class]; ok {
			class = known
		} else {
			p.names[class] = class
		}
		classes = append(classes, class)
		return nil
	})
	if err != nil {
		return err
	}
	k := 0
	return pf.each(image, func(n int64) error {
		p.work.add(n)
		if p.tree.held += n; p.tree.held > maxHeld {
			return fmt.Errorf("more than %d bytes of pictures, which are held in memory: unpack them to train/<class>/ and val/<class>/", int64(maxHeld))
		}
		return nil
	}, func(c cell) error {
		if c.null {
			return fmt.Errorf("row %d has no picture", len(p.list))
		}
		p.list = append(p.list, file{name: fmt.Sprintf("%s-%07d", p.name, len(p.list)), kind: imageKind, at: int64(len(p.held.b)), size: int64(len(c.bytes)), in: p.held, from: p.from, class: classes[k]})
		p.held.b = append(p.held.b, c.bytes)
		k++
		return nil
	})
}

// noPictures is the error of a table without a column of pictures, or of labels.
type noPictures string

func (e noPictures) Error() string { return string(e) }

// pictureColumns are the columns of pictures and of labels. Of several structures with
// bytes, or columns of bytes, one that is named as a picture is; two are refused.
func (f *parquetFile) pictureColumns() (image, label int, err error) {
	var named, others []int // columns of pictures by their names, and structures with bytes
	label = -1
	best := len(labelColumns)
	for i := range f.columns {
		c := &f.columns[i]
		top := strings.ToLower(c.path[0])
		if k := slices.Index(labelColumns, top); k >= 0 && k < best {
			label, best = i, k
		}
		if c.kind != byteArrays || c.list || c.text {
			continue
		}
		inside := len(c.path) == 2 && c.path[1] == "bytes"
		switch {
		case slices.Contains(pictureNames, top) && (inside || len(c.path) == 1):
			named = append(named, i)
		case inside:
			others = append(others, i)
		}
	}
	if len(named) == 0 {
		named = others
	}
	switch {
	case len(named) == 0:
		return 0, 0, noPictures(fmt.Sprintf("no column of pictures: looked for one of bytes, or of structures with bytes, called %s; the columns are %s", strings.Join(pictureNames, ", "), f.describe()))
	case len(named) > 1:
		return 0, 0, fmt.Errorf("two columns of pictures, %s and %s; leave one out, or call only one %s", f.columns[named[0]].title(), f.columns[named[1]].title(), pictureNames[0])
	case label < 0:
		return 0, 0, noPictures(fmt.Sprintf("no column of labels: looked for one called %s; the columns are %s", strings.Join(labelColumns, ", "), f.describe()))
	}
	switch c := &f.columns[label]; {
	case c.list, len(c.path) > 1, c.kind == int96s, c.kind == fixedBytes:
		return 0, 0, fmt.Errorf("column %s holds no labels: want whole numbers, bools or names; the columns are %s", c.title(), f.describe())
	}
	return named[0], label, nil
}

// title is the quoted name of a column of the table.
func (c *parquetColumn) title() string { return strconv.Quote(c.path[0]) }

// describe lists columns and what they hold.
func (f *parquetFile) describe() string {
	var out []string
	for i := 0; i < len(f.columns); {
		c := &f.columns[i]
		var inside []string
		list := false
		k := i
		for ; k < len(f.columns) && f.columns[k].path[0] == c.path[0]; k++ {
			l := &f.columns[k]
			what := physicalNames[l.kind]
			if l.text {
				what = "text"
			}
			if list = list || l.list; len(l.path) > 1 && !l.list {
				what = l.path[len(l.path)-1] + " " + what
			}
			inside = append(inside, what)
		}
		what := listed(inside)
		switch {
		case list:
			what = "list of " + what
		case len(c.path) > 1:
			what = "structure of " + what
		}
		out = append(out, fmt.Sprintf("%s (%s)", c.title(), what))
		i = k
	}
	return listed(out)
}

// classText is a label as the name of a class, "" if it is missing, as missing says: that
// may be so in a part without labels.
func classText(c cell, kind physical) (class, missing string, err error) {
	switch {
	case c.null:
		return "", "null", nil
	case kind == byteArrays && len(c.bytes) == 0:
		return "", "an empty text", nil
	case kind == byteArrays:
		return folderName(string(c.bytes)), "", nil
	case kind == booleans:
		return strconv.FormatBool(c.whole != 0), "", nil
	case kind == float32s || kind == float64s:
		if math.IsNaN(c.real) {
			return "", "NaN", nil
		}
		if c.real != math.Trunc(c.real) || math.Abs(c.real) >= 1<<53 {
			return "", "", fmt.Errorf("%g", c.real)
		}
		c.whole = int64(c.real)
	}
	if c.whole < 0 {
		return "", strconv.FormatInt(c.whole, 10), nil
	}
	return strconv.FormatInt(c.whole, 10), "", nil
}
