package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Pictures in Parquet, as Hugging Face's datasets keeps them: a column of structures
// with the bytes of a picture file (image.bytes, img.bytes), or of the bytes alone, and a
// column label of whole numbers or names. Files are named after their split, such as
// data/train-00000-of-00002.parquet. A value cannot be read without its page, so the
// bytes are held in memory.

// Columns that hold labels, the first of them that there is.
var labelColumns = []string{"label", "labels", "fine_label", "class", "target", "y"}

// addParquet adds the pictures of a Parquet file; a table without any is left out.
func (t *tree) addParquet(from string, f *os.File, size int64) (err error) {
	defer func() { // the reader trusts what a file says of itself
		if p := recover(); p != nil {
			err = fmt.Errorf("a broken Parquet file: %v", p)
		}
	}()
	if err := footerFits(f, size); err != nil {
		return err
	}
	pf, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	image, label := pictureColumns(pf.Schema())
	if image < 0 || label < 0 {
		return nil
	}
	if pf.NumRows() > maxFiles {
		return fmt.Errorf("%d pictures, more than %d", pf.NumRows(), maxFiles)
	}
	var w *work
	if t.work != nil {
		w = t.work(from, size)
		defer w.end()
	}
	held := &blobs{}
	name := strings.ReplaceAll(strings.TrimSuffix(from, path.Ext(from)), "/", "_")
	var list []file
	for _, group := range pf.RowGroups() {
		var classes []string
		if err := eachValue(group.ColumnChunks()[label], func(v parquet.Value) error {
			classes = append(classes, classText(v))
			return nil
		}); err != nil {
			return err
		}
		k := 0
		if err := eachValue(group.ColumnChunks()[image], func(v parquet.Value) error {
			if v.IsNull() || k >= len(classes) {
				return fmt.Errorf("row %d has no picture", len(list))
			}
			b := slices.Clone(v.ByteArray())
			w.add(int64(len(b)))
			if t.held += int64(len(b)); t.held > maxHeld {
				return fmt.Errorf("more than %d bytes of pictures, which are held in memory: unpack them to train/<class>/ and val/<class>/", int64(maxHeld))
			}
			list = append(list, file{name: fmt.Sprintf("%s-%07d", name, len(list)), kind: imageKind, at: int64(len(held.b)), size: int64(len(b)), in: held, from: from, class: classes[k]})
			held.b = append(held.b, b)
			k++
			return nil
		}); err != nil {
			return err
		}
	}
	return t.addAll(list)
}

// footerFits checks what stands before the last four bytes, the size of the footer: the
// reader makes room for it before it looks whether the file is as long.
func footerFits(f io.ReaderAt, size int64) error {
	const around = 12 // the magic number twice, and this size
	var tail [8]byte
	if size < around {
		return errors.New("a broken Parquet file: it is shorter than an empty one")
	}
	if _, err := f.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return err
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:])); n > size-around {
		return fmt.Errorf("a broken Parquet file: a footer of %d bytes in a file of %d", n, size)
	}
	return nil
}

// pictureColumns are the columns of pictures and of labels, −1 where there is none.
func pictureColumns(s *parquet.Schema) (image, label int) {
	image, label = -1, -1
	bare, best := -1, len(labelColumns)
	for _, at := range s.Columns() {
		leaf, ok := s.Lookup(at...)
		if !ok || leaf.MaxRepetitionLevel > 0 || leaf.Node == nil {
			continue
		}
		bytes := leaf.Node.Type().Kind() == parquet.ByteArray
		switch last := at[len(at)-1]; {
		case bytes && image < 0 && len(at) > 1 && last == "bytes":
			image = leaf.ColumnIndex
		case bytes && bare < 0 && len(at) == 1 && (last == "image" || last == "img" || last == "jpg" || last == "png"):
			bare = leaf.ColumnIndex
		case len(at) == 1:
			if k := slices.Index(labelColumns, last); k >= 0 && k < best {
				label, best = leaf.ColumnIndex, k
			}
		}
	}
	if image < 0 {
		image = bare
	}
	return image, label
}

// classText is a label as the name of a class; "" for none, which is −1 too.
func classText(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.ByteArray:
		return strings.ReplaceAll(string(v.ByteArray()), "/", "_")
	case v.Kind() == parquet.Int64 && v.Int64() >= 0:
		return strconv.FormatInt(v.Int64(), 10)
	case v.Kind() == parquet.Int32 && v.Int32() >= 0:
		return strconv.Itoa(int(v.Int32()))
	}
	return ""
}

// eachValue calls f with every value of a column of a row group. What a value points to
// holds during the call.
func eachValue(c parquet.ColumnChunk, f func(parquet.Value) error) error {
	pages := c.Pages()
	defer pages.Close()
	buf := make([]parquet.Value, 64)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = func() error {
			defer parquet.Release(page)
			for values := page.Values(); ; {
				n, err := values.ReadValues(buf)
				for _, v := range buf[:n] {
					if err := f(v); err != nil {
						return err
					}
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if n == 0 {
					return io.ErrNoProgress
				}
			}
		}()
		if err != nil {
			return err
		}
	}
}
