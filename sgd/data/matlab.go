package data

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf16"
)

// meta.mat of ImageNet's development kit says which folder (WNID) belongs to which
// number of a class (ILSVRC2012_ID). It is a level 5 MAT-file (MathWorks, "MAT-File
// Format"): a header of 128 bytes, then elements of u32 type, u32 length and
// content, padded to 8 bytes; an element of up to 4 bytes may stand in 8 bytes in
// all. Of the format, this reads what a struct array of numbers and texts needs.

// Types of elements and classes of arrays.
const (
	miMatrix     = 14
	miCompressed = 15
	mxStruct     = 2
	mxChar       = 4
	maxMAT       = 1 << 26 // bytes, unpacked
)

// matElement takes the first element off b. A few bytes at the end are none.
func matElement(b []byte) (typ uint32, body, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, nil, io.ErrUnexpectedEOF
	}
	typ = binary.LittleEndian.Uint32(b)
	if n := typ >> 16; n > 0 { // a small one
		if n > 4 {
			return 0, nil, nil, fmt.Errorf("a small element of %d bytes", n)
		}
		return typ & 0xffff, b[4 : 4+n], b[8:], nil
	}
	n := uint64(binary.LittleEndian.Uint32(b[4:]))
	if n > uint64(len(b)-8) {
		return 0, nil, nil, fmt.Errorf("an element of %d bytes in %d", n, len(b)-8)
	}
	end := n
	if typ != miCompressed {
		end = min((n+7)/8*8, uint64(len(b)-8))
	}
	return typ, b[8 : 8+n], b[8+end:], nil
}

// matArray is an array: of numbers, a text, or structs.
type matArray struct {
	name   string
	num    []float64
	text   string
	fields []string
	items  []matArray // struct by struct, field by field
}

// readMAT returns the arrays of a file.
func readMAT(b []byte) (out []matArray, err error) {
	if len(b) < 128 || string(b[126:128]) != "IM" {
		return nil, fmt.Errorf("not a level 5 MAT-file in little-endian order")
	}
	for b = b[128:]; len(b) >= 8; {
		typ, body, rest, err := matElement(b)
		if err != nil {
			return nil, err
		}
		b = rest
		if typ == miCompressed {
			zr, err := zlib.NewReader(bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			un, err := readAll(zr, maxMAT)
			if err != nil {
				return nil, err
			}
			if typ, body, _, err = matElement(un); err != nil {
				return nil, err
			}
		}
		if typ != miMatrix {
			continue
		}
		a, err := matMatrix(body, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// matMatrix reads an array; structs may hold arrays, a few levels deep.
func matMatrix(b []byte, depth int) (a matArray, err error) {
	if len(b) == 0 || depth > 4 {
		return a, nil // an empty one, or deeper than anything of use
	}
	var part [3][]byte // flags, dimensions, name
	for i := range part {
		if _, part[i], b, err = matElement(b); err != nil {
			return a, err
		}
	}
	if len(part[0]) < 8 || len(part[1])%4 != 0 {
		return a, fmt.Errorf("an array without a class")
	}
	a.name = string(part[2])
	class := part[0][0]
	switch {
	case class == mxStruct:
		return a, a.structs(b, part[1], depth)
	case class != mxChar && (class < 6 || class > 15):
		return a, nil // cells, objects, sparse arrays: of no use
	}
	typ, body, _, err := matElement(b)
	if err != nil {
		return a, err
	}
	if a.num, err = matNumbers(typ, body); err == nil && class == mxChar {
		var units []uint16
		for _, v := range a.num {
			units = append(units, uint16(v))
		}
		a.text, a.num = string(utf16.Decode(units)), nil
	}
	return a, err
}

// structs reads the fields of an array of structs.
func (a *matArray) structs(b, dims []byte, depth int) error {
	_, width, b, err := matElement(b)
	if err != nil {
		return err
	}
	_, names, b, err := matElement(b)
	if err != nil {
		return err
	}
	if len(width) != 4 || binary.LittleEndian.Uint32(width) < 1 || binary.LittleEndian.Uint32(width) > 64 {
		return fmt.Errorf("a struct whose field names are of no length")
	}
	for w := int(binary.LittleEndian.Uint32(width)); len(names) >= w; names = names[w:] {
		a.fields = append(a.fields, string(bytes.TrimRight(names[:w], "\x00")))
	}
	n := uint64(len(a.fields))
	for ; len(dims) > 0; dims = dims[4:] {
		n *= uint64(binary.LittleEndian.Uint32(dims))
		if n > uint64(len(b))/8 {
			return fmt.Errorf("%d fields in %d bytes", n, len(b))
		}
	}
	for range n {
		_, body, rest, err := matElement(b)
		if err != nil {
			return err
		}
		item, err := matMatrix(body, depth+1)
		if err != nil {
			return err
		}
		a.items, b = append(a.items, item), rest
	}
	return nil
}

// matNumbers reads an element of numbers, or of characters.
func matNumbers(typ uint32, b []byte) (out []float64, err error) {
	le := binary.LittleEndian
	kinds := map[uint32]struct {
		size int
		read func([]byte) float64
	}{
		1:  {1, func(b []byte) float64 { return float64(int8(b[0])) }},
		2:  {1, func(b []byte) float64 { return float64(b[0]) }},
		3:  {2, func(b []byte) float64 { return float64(int16(le.Uint16(b))) }},
		4:  {2, func(b []byte) float64 { return float64(le.Uint16(b)) }},
		5:  {4, func(b []byte) float64 { return float64(int32(le.Uint32(b))) }},
		6:  {4, func(b []byte) float64 { return float64(le.Uint32(b)) }},
		7:  {4, func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }},
		9:  {8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }},
		12: {8, func(b []byte) float64 { return float64(int64(le.Uint64(b))) }},
		13: {8, func(b []byte) float64 { return float64(le.Uint64(b)) }},
		16: {1, func(b []byte) float64 { return float64(b[0]) }}, // UTF-8
		17: {2, func(b []byte) float64 { return float64(le.Uint16(b)) }},
	}
	k, ok := kinds[typ]
	if !ok {
		return nil, fmt.Errorf("numbers of type %d", typ)
	}
	for ; len(b) >= k.size; b = b[k.size:] {
		out = append(out, k.read(b))
	}
	return out, nil
}

// synsets is the folder of each class by its number, as meta.mat has it.
func synsets(b []byte) (map[string]string, error) {
	arrays, err := readMAT(b)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, a := range arrays {
		if a.name != "synsets" {
			continue
		}
		for n := len(a.fields); n > 0 && len(a.items) >= n; a.items = a.items[n:] {
			id, folder := "", ""
			for i, f := range a.fields {
				switch v := a.items[i]; {
				case f == "ILSVRC2012_ID" && len(v.num) == 1:
					id = fmt.Sprint(v.num[0])
				case f == "WNID":
					folder = v.text
				}
			}
			if id != "" && folder != "" {
				out[id] = folder
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no array synsets with ILSVRC2012_ID and WNID in it")
	}
	return out, nil
}
