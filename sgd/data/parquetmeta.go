package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parquetFile is the part of a file's footer that is needed here. No library reads it:
// libraries allocate lists, pages, runs and packed blocks by the sizes that a file claims.
// Here the bytes of the file bound every allocation.
type parquetFile struct {
	in      io.ReaderAt
	size    int64 // of the file
	end     int64 // where the footer begins
	footer  []byte
	rows    int64
	columns []parquetColumn // leaves, in their order
}

// parquetColumn is one column of values.
type parquetColumn struct {
	path   []string
	kind   physical
	text   bool // bytes that are said to be text
	maxDef int  // a value with a lower definition level is null
	list   bool // a row has any number of values
}

// physical is how a value is stored.
type physical int

const (
	booleans physical = iota
	int32s
	int64s
	int96s
	float32s
	float64s
	byteArrays
	fixedBytes
)

var physicalNames = []string{"bool", "int32", "int64", "int96", "float", "double", "bytes", "bytes of one length"}

// chunk is the values of a column in a group of rows.
type chunk struct {
	col      *parquetColumn
	codec    int64
	at, size int64
	rows     int64 // of the group
}

// Bounds on a footer.
const (
	maxFooter  = 1 << 26 // bytes
	maxColumns = 1 << 14 // elements of the schema
	maxNesting = 32
)

// openParquet reads the footer of a file of size bytes.
func openParquet(in io.ReaderAt, size int64) (*parquetFile, error) {
	const around = 12 // the magic number twice, and the size of the footer
	var tail [8]byte
	if size < around {
		return nil, errors.New("a broken Parquet file: it is shorter than an empty one")
	}
	if _, err := in.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(tail[4:]) == "PARE":
		return nil, errors.New("an encrypted Parquet file")
	case string(tail[4:]) != "PAR1":
		return nil, errors.New("a broken Parquet file: it does not end as one")
	case n > size-around:
		return nil, fmt.Errorf("a broken Parquet file: a footer of %d bytes in a file of %d", n, size)
	case n > maxFooter:
		return nil, fmt.Errorf("a Parquet file with a footer of %d bytes, more than %d", n, maxFooter)
	}
	f := &parquetFile{in: in, size: size, end: size - 8 - n, footer: make([]byte, n)}
	if _, err := in.ReadAt(f.footer, f.end); err != nil {
		return nil, err
	}
	var schema []element
	c := &compact{b: f.footer}
	c.fields(func(id int, typ byte) {
		switch {
		case id == 2 && typ == thriftList:
			c.list(thriftStruct, func() {
				if schema = append(schema, c.element()); len(schema) > maxColumns {
					c.fail("more than %d columns", maxColumns)
				}
			})
		case id == 3 && typ == thriftI64:
			f.rows = c.zigzag()
		default:
			c.skip(typ, 0)
		}
	})
	if c.err == nil && len(schema) == 0 {
		c.fail("no schema")
	}
	if c.err == nil {
		rest := schema[1:]
		for k := int64(0); k < schema[0].children && c.err == nil; k++ {
			f.leaves(c, &rest, nil, 0, false)
		}
		if len(rest) > 0 {
			c.fail("a schema of %d columns too many", len(rest))
		}
	}
	if c.err != nil {
		return nil, fmt.Errorf("a broken Parquet file: %w", c.err)
	}
	if f.rows < 0 || f.rows > size { // a row has a picture, of a byte at least
		return nil, fmt.Errorf("a broken Parquet file: %d rows in %d bytes", f.rows, size)
	}
	return f, nil
}

// element is one of the schema, which is a tree in depth-first order.
type element struct {
	name           string
	kind, children int64 // kind −1: a group
	repetition     int64
	text           bool
}

func (c *compact) element() element {
	e := element{kind: -1}
	c.fields(func(id int, typ byte) {
		switch {
		case id == 1 && typ == thriftI32:
			e.kind = c.zigzag()
		case id == 3 && typ == thriftI32:
			e.repetition = c.zigzag()
		case id == 4 && typ == thriftBytes:
			e.name = string(c.bytes())
		case id == 5 && typ == thriftI32:
			e.children = c.zigzag()
		case id == 6 && typ == thriftI32:
			kind := c.zigzag() // UTF8, ENUM, JSON
			e.text = e.text || kind == 0 || kind == 4 || kind == 19
		case id == 10 && typ == thriftStruct: // a union, whose first member is STRING
			c.fields(func(id int, typ byte) {
				e.text = e.text || id == 1
				c.skip(typ, 0)
			})
		default:
			c.skip(typ, 0)
		}
	})
	return e
}

// leaves takes an element and its children off the schema.
func (f *parquetFile) leaves(c *compact, rest *[]element, path []string, def int, list bool) {
	if len(*rest) == 0 || len(path) >= maxNesting {
		c.fail("a schema that ends too soon, or is nested too deep")
		return
	}
	e := (*rest)[0]
	*rest = (*rest)[1:]
	path = append(path[:len(path):len(path)], e.name)
	if e.repetition != 0 {
		def++
	}
	list = list || e.repetition == 2
	if e.children == 0 {
		if e.kind < 0 || e.kind > int64(fixedBytes) {
			c.fail("column %q has no type that is known", e.name)
			return
		}
		f.columns = append(f.columns, parquetColumn{path: path, kind: physical(e.kind), text: e.text, maxDef: def, list: list})
		return
	}
	for k := int64(0); k < e.children && c.err == nil; k++ {
		f.leaves(c, rest, path, def, list)
	}
}

// groups calls each with the chunks of the wanted columns, group of rows by group.
func (f *parquetFile) groups(want []int, each func([]chunk) error) error {
	var err error
	rows := int64(0)
	c := &compact{b: f.footer}
	c.fields(func(id int, typ byte) {
		if id != 4 || typ != thriftList {
			c.skip(typ, 0)
			return
		}
		c.list(thriftStruct, func() {
			chunks, n := c.group(f, want)
			if rows += n; c.err == nil && rows > f.rows {
				c.fail("groups of more rows than the %d of the file", f.rows)
			}
			if c.err == nil && n > 0 {
				if err = each(chunks); err != nil {
					c.err = err
				}
			}
		})
	})
	switch {
	case err != nil:
		return err
	case c.err != nil:
		return fmt.Errorf("a broken Parquet file: %w", c.err)
	case rows != f.rows:
		return fmt.Errorf("a broken Parquet file: groups of %d rows, %d in all", rows, f.rows)
	}
	return nil
}

// group reads a group of rows: the chunks of the wanted columns, and how many rows it has.
func (c *compact) group(f *parquetFile, want []int) (chunks []chunk, rows int64) {
	chunks = make([]chunk, len(want))
	n := 0
	c.fields(func(id int, typ byte) {
		switch {
		case id == 1 && typ == thriftList:
			c.list(thriftStruct, func() {
				ch := c.chunk()
				for k, i := range want {
					if i == n {
						ch.col = &f.columns[i]
						chunks[k] = ch
					}
				}
				n++
			})
		case id == 3 && typ == thriftI64:
			rows = c.zigzag()
		default:
			c.skip(typ, 0)
		}
	})
	if c.err == nil && (n != len(f.columns) || rows < 0 || rows > f.rows) {
		c.fail("a group of %d rows with %d of %d columns", rows, n, len(f.columns))
	}
	for k := range chunks {
		ch := &chunks[k]
		ch.rows = rows
		if c.err == nil && rows > 0 && (ch.at < 4 || ch.size < 0 || ch.at > f.end || ch.size > f.end-ch.at) {
			c.fail("column %s: bytes %d to %d of %d", strings.Join(ch.col.path, "."), ch.at, ch.at+ch.size, f.end)
		}
	}
	return chunks, rows
}

// chunk reads where the chunk of a column lies.
func (c *compact) chunk() (out chunk) {
	var dict int64
	c.fields(func(id int, typ byte) {
		switch {
		case id == 1:
			c.fail("a column in another file")
		case id == 3 && typ == thriftStruct:
			c.fields(func(id int, typ byte) {
				switch {
				case id == 4 && typ == thriftI32:
					out.codec = c.zigzag()
				case id == 7 && typ == thriftI64:
					out.size = c.zigzag()
				case id == 9 && typ == thriftI64:
					out.at = c.zigzag()
				case id == 11 && typ == thriftI64:
					dict = c.zigzag()
				default:
					c.skip(typ, 0)
				}
			})
		default:
			c.skip(typ, 0)
		}
	})
	if dict > 0 && dict < out.at {
		out.at = dict
	}
	return out
}

// compact reads Thrift's compact protocol. The first error stays in err and ends reading.
// Values are slices of b.
type compact struct {
	b   []byte
	err error
}

// Types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBytes  = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

func (c *compact) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
	c.b = nil
}

// short fails on bytes that end too soon.
func (c *compact) short() {
	if c.err == nil {
		c.err = io.ErrUnexpectedEOF
	}
	c.b = nil
}

func (c *compact) byte() (v byte) {
	if len(c.b) == 0 {
		c.short()
		return 0
	}
	v, c.b = c.b[0], c.b[1:]
	return v
}

func (c *compact) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.short()
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *compact) zigzag() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes is a text or bytes, part of those that are read.
func (c *compact) bytes() []byte {
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.short()
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// fields calls f with every field of a structure, which takes its value or skips it.
func (c *compact) fields(f func(id int, typ byte)) {
	id := 0
	for c.err == nil {
		head := c.byte()
		typ := head & 15
		if typ == 0 { // the end
			return
		}
		if by := int(head >> 4); by > 0 {
			id += by
		} else {
			id = int(c.zigzag())
		}
		if c.err == nil {
			f(id, typ)
		}
	}
}

// list calls f for every element of a list, of which each takes a byte at least.
func (c *compact) list(want byte, f func()) {
	n, typ := c.listHead()
	if c.err == nil && n > 0 && typ != want {
		c.fail("a list of other things than were to be")
	}
	for ; n > 0 && c.err == nil; n-- {
		f()
	}
}

func (c *compact) listHead() (n uint64, typ byte) {
	head := c.byte()
	if n = uint64(head >> 4); n == 15 {
		n = c.uvarint()
	}
	if n > uint64(len(c.b)) {
		c.fail("a list of %d in %d bytes", n, len(c.b))
	}
	return n, head & 15
}

// skip takes a value off.
func (c *compact) skip(typ byte, depth int) {
	if depth > maxNesting {
		c.fail("nested too deep")
		return
	}
	switch typ {
	case thriftTrue, thriftFalse:
	case thriftByte:
		c.byte()
	case thriftI16, thriftI32, thriftI64:
		c.uvarint()
	case thriftDouble:
		if len(c.b) < 8 {
			c.short()
			return
		}
		c.b = c.b[8:]
	case thriftBytes:
		c.bytes()
	case thriftList, thriftSet:
		n, of := c.listHead()
		for ; n > 0 && c.err == nil; n-- {
			c.skipItem(of, depth)
		}
	case thriftMap:
		n := c.uvarint()
		if n > uint64(len(c.b)) {
			c.fail("a map of %d in %d bytes", n, len(c.b))
		}
		of := byte(0)
		if n > 0 {
			of = c.byte()
		}
		for ; n > 0 && c.err == nil; n-- {
			c.skipItem(of>>4, depth)
			c.skipItem(of&15, depth)
		}
	case thriftStruct:
		c.fields(func(_ int, typ byte) { c.skip(typ, depth+1) })
	default:
		c.fail("type %d", typ)
	}
}

// skipItem takes an item of a list or a map off: there a bool is a byte.
func (c *compact) skipItem(typ byte, depth int) {
	if typ == thriftTrue || typ == thriftFalse {
		typ = thriftByte
	}
	c.skip(typ, depth+1)
}
