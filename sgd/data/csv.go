package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// CSV is a table of numbers with a label, a sample a line: label names or numbers
// the column of classes; all others are features. Without a label the error lists the
// columns, the likeliest first. Fields
// are apart by comma, semicolon or tab, whichever the first line has most of. The file
// is UTF-8, or UTF-16 with its byte order mark, and may be packed with gzip or zstd.
//
// The first line holds the names of columns if the label is named, or if its fields
// are no numbers where those below are; the run's log says so. Names may be numbers. A
// first column without a name, as pandas writes its index, is left out. The columns of
// the test set are matched by name.
//
// Labels are texts or numbers; equal numbers (0 and 0.0) are one class, and classes are
// numbered in their order. A missing label (empty, NaN, NA, N/A, null, None, ?) is
// refused, and so are a single class, and classes that are fractions and more than a
// tenth of the samples: those are numbers to predict, which gradlab does not.
type CSV struct {
	Path     string  `doc:"the file; below --data-dir, or as it is"`
	Label    string  `doc:"the column of classes, by name, by number from 1, or -1 for the last; required"`
	TestPath string  `doc:"file of the test set; empty: a share of each class"`
	Test     float64 `doc:"share of each class that is the test set, where it has no file of its own"`
	Scale    string  `doc:"standard: mean 0, deviation 1 by feature of the training samples; none: as they are"`
}

var _ = Sets.Add("csv", "your own table of numbers with a label, a sample a line", CSV{Test: 0.2, Scale: "standard"})

// Validate checks the options.
func (s CSV) Validate() error { return checkOwn(s.Test, s.Scale) }

func (CSV) own() {}

// Open reads the table into memory. There is nothing to augment. Errors name file,
// line and column.
func (s CSV) Open(o Options) (sgd.Dataset, error) {
	train, test, notes, err := s.tables(o)
	var ds sgd.Dataset
	if err == nil {
		ds, err = serve(train, test, s.Scale, o, notes...)
	}
	if err != nil {
		return ds, fmt.Errorf("data: csv: %s", strings.TrimPrefix(err.Error(), "data: csv: "))
	}
	return ds, nil
}

// tables reads both parts, and notes how their files were understood.
func (s CSV) tables(o Options) (train, test *unscaled, notes []string, err error) {
	var sheets [2]*sheet
	var labels []string
	for i, path := range []string{s.Path, s.TestPath} {
		if i == 1 && path == "" {
			break
		}
		if path, err = ownPath("csv", path, o); err != nil {
			return nil, nil, nil, err
		}
		b, err := readSheet(path)
		if err == nil && s.Label == "" {
			err = askLabel(b)
		}
		if err == nil {
			sheets[i], err = parseCSV(b, s.Label, sheets[0])
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s%w", path, err)
		}
		for _, note := range sheets[i].notes {
			notes = append(notes, filepath.Base(path)+": "+note)
		}
		labels = append(labels, sheets[i].labels...)
	}
	y, names := classesOf(labels) // those of both files
	n := len(sheets[0].labels)
	all := sheets[0].table(y[:n], names)
	if sheets[1] != nil {
		return all, sheets[1].table(y[n:], names), notes, nil
	}
	if n > 1 && all.cls == n {
		return nil, nil, nil, fmt.Errorf("%s: each of the %d samples has a label of its own in column %s: name or number the column of classes, label=…", s.Path, n, sheets[0].label)
	}
	if n := len(labels); len(names) > max(2, n/10) && fractions(names) {
		return nil, nil, nil, fmt.Errorf("%s: column %s holds %d different numbers in %d samples: want classes, not a number to predict; name another column, label=…, or cut its range into classes", s.Path, sheets[0].label, len(names), n)
	}
	train, test = all.split(s.Test)
	return train, test, notes, nil
}

// table is the samples of a sheet with the classes of its labels.
func (s *sheet) table(y []int32, names []string) *unscaled {
	dim := len(s.features)
	return &unscaled{sh: sgd.Shape{C: 1, H: 1, W: dim}, cls: len(names), names: names, y: y, features: s.titles(),
		row: func(i int, x []float64) { copy(x, s.x[i*dim:(i+1)*dim]) }}
}

// readSheet reads a table as UTF-8. Errors begin with a colon.
func readSheet(path string) ([]byte, error) {
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	in, packed, err := unwrap(bytes.NewReader(b))
	if err == nil && packed {
		b, err = readAll(in, maxBlob)
	}
	if err != nil {
		return nil, fmt.Errorf(": unpacking it: %w", err)
	}
	switch sniff(path, b[:min(len(b), headBytes)], -1) {
	case zipKind:
		return nil, errors.New(": a zip, as .xlsx files are; want a text: save it as CSV")
	case parquetKind:
		return nil, errors.New(": a Parquet file; want a text: save it as CSV")
	case npyKind:
		return nil, errors.New(": a NumPy array; data=npy(path=…) reads a folder of those")
	}
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return fromUTF16(b[2:], binary.LittleEndian)
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return fromUTF16(b[2:], binary.BigEndian)
	}
	if at := bytes.IndexByte(b, 0); at >= 0 {
		return nil, fmt.Errorf(":%d: a zero byte, which no text holds; want UTF-8, or UTF-16 with its byte order mark", 1+bytes.Count(b[:at], []byte("\n")))
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), nil
}

// fromUTF16 is a text as UTF-8.
func fromUTF16(b []byte, order binary.ByteOrder) ([]byte, error) {
	if len(b)%2 != 0 {
		return nil, errors.New(": UTF-16 that ends within a character")
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// classesOf numbers labels: by size if all are numbers, else by name.
func classesOf(labels []string) (y []int32, names []string) {
	names = slices.Clone(labels)
	slices.Sort(names)
	names = slices.Compact(names)
	value := map[string]float64{}
	for _, n := range names {
		if v, err := strconv.ParseFloat(n, 64); err == nil {
			value[n] = v
		}
	}
	if len(value) == len(names) {
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(value[a], value[b]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
	}
	place := map[string]int32{}
	for i, n := range names {
		place[n] = int32(i)
	}
	for _, l := range labels {
		y = append(y, place[l])
	}
	return y, names
}
