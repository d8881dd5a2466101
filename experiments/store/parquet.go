package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/klauspost/compress/s2"
)

// Parquet, as much of it as a table of optional columns takes: row groups, in each
// a page of each column (definition levels, then the values there are, plain, packed by
// Snappy), and at the end where they are, in Thrift's compact protocol. The format is
// Apache's: github.com/apache/parquet-format. A test reads it by a library.

// Physical types and codes of the format.
const (
	parquetBool, parquetInt64, parquetDouble, parquetBytes = 0, 2, 5, 6
	parquetPlain, parquetRLE, parquetSnappy                = 0, 3, 1
	parquetMagic                                           = "PAR1"
	parquetRows                                            = 1 << 16 // in a row group
)

// WriteParquet writes the frame as a Parquet file of optional columns: doubles, bools,
// UTF-8 strings, whole numbers of 64 bits without sign, and instants in microseconds,
// compressed by Snappy. Columns are in the order of the frame.
func (t *Frame) WriteParquet(w io.Writer) error {
	at := int64(0)
	put := func(b []byte) error {
		n, err := w.Write(b)
		at += int64(n)
		return err
	}
	if err := put([]byte(parquetMagic)); err != nil {
		return err
	}
	var groups [][]byte // what is said of each row group
	for lo := 0; lo < t.Rows; lo += parquetRows {
		hi := min(t.Rows, lo+parquetRows)
		var chunks [][]byte
		total := int64(0)
		for _, c := range t.Columns {
			body, err := page(c, lo, hi)
			if err != nil {
				return err
			}
			packed := s2.EncodeSnappy(nil, body)
			var data, head thrift
			data.i(1, int64(hi-lo)).i(2, parquetPlain).i(3, parquetRLE).i(4, parquetRLE)
			head.i(1, 0).i(2, int64(len(body))).i(3, int64(len(packed))).structure(5, data.end())
			header := head.end()
			var meta, chunk thrift
			meta.i(1, parquetType(c)).list(2, thriftI32, [][]byte{zigzag(parquetPlain), zigzag(parquetRLE)}).
				list(3, thriftBytes, [][]byte{sized(c.Name)}).i(4, parquetSnappy).long(5, int64(hi-lo)).
				long(6, int64(len(header)+len(body))).long(7, int64(len(header)+len(packed))).long(9, at)
			chunks = append(chunks, chunk.long(2, at).structure(3, meta.end()).end())
			total += int64(len(header) + len(body))
			if err := put(append(header, packed...)); err != nil {
				return err
			}
		}
		var group thrift
		groups = append(groups, group.list(1, thriftStruct, chunks).long(2, total).long(3, int64(hi-lo)).end())
	}
	var root, foot thrift
	schema := [][]byte{root.text(4, "runs").i(5, int64(len(t.Columns))).end()}
	for _, c := range t.Columns {
		schema = append(schema, schemaOf(c))
	}
	b := foot.i(1, 1).list(2, thriftStruct, schema).long(3, int64(t.Rows)).list(4, thriftStruct, groups).text(6, "gradlab").end()
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	return put(append(b, parquetMagic...))
}

func parquetType(c Column) int64 {
	switch {
	case c.Kind == Instant, c.Kind.isWhole():
		return parquetInt64
	case c.Kind == Bool:
		return parquetBool
	case c.Kind.Numeric():
		return parquetDouble
	}
	return parquetBytes
}

// isWhole reports whether values are uint64.
func (k Kind) isWhole() bool { return k == Whole || k == Bytes }

// schemaOf describes a column.
func schemaOf(c Column) []byte {
	var s, logical, none thrift
	s.i(1, parquetType(c)).i(3, 1).text(4, c.Name)
	switch {
	case parquetType(c) == parquetBytes: // UTF-8
		s.i(6, 0).structure(10, logical.structure(1, none.end()).end())
	case c.Kind.isWhole(): // 64 bits, without sign
		var whole thrift
		whole.field(1, thriftI8)
		whole.b = append(whole.b, 64)
		s.i(6, 14).structure(10, logical.structure(10, whole.field(2, thriftFalse).end()).end())
	case c.Kind == Instant: // microseconds, in UTC
		var stamp, unit thrift
		stamp.yes(1).structure(2, unit.structure(2, none.end()).end())
		s.i(6, 10).structure(10, logical.structure(8, stamp.end()).end())
	}
	return s.end()
}

// page is a column's rows lo to hi: which of them have a value, in runs, then the
// values.
func page(c Column, lo, hi int) ([]byte, error) {
	var levels, values []byte
	for i := lo; i < hi; {
		there, from := c.Values[i] != nil, i
		for i < hi && (c.Values[i] != nil) == there {
			i++
		}
		levels = binary.AppendUvarint(levels, uint64(i-from)<<1)
		if there {
			levels = append(levels, 1)
		} else {
			levels = append(levels, 0)
		}
	}
	bits := 0 // of bools, eight in a byte, the first one lowest
	for _, v := range c.Values[lo:hi] {
		switch x := v.(type) {
		case nil:
		case bool:
			if parquetType(c) != parquetBool {
				return nil, fmt.Errorf("column %s holds a bool among others", c.Name)
			}
			if bits%8 == 0 {
				values = append(values, 0)
			}
			if x {
				values[bits/8] |= 1 << (bits % 8)
			}
			bits++
		case float64:
			if parquetType(c) != parquetDouble {
				return nil, fmt.Errorf("column %s holds a number among others", c.Name)
			}
			values = binary.LittleEndian.AppendUint64(values, math.Float64bits(x))
		case uint64:
			if !c.Kind.isWhole() {
				return nil, fmt.Errorf("column %s holds a whole number among others", c.Name)
			}
			values = binary.LittleEndian.AppendUint64(values, x)
		case time.Time:
			if c.Kind != Instant {
				return nil, fmt.Errorf("column %s holds an instant among others", c.Name)
			}
			values = binary.LittleEndian.AppendUint64(values, uint64(x.UnixMicro()))
		default:
			s := exact(x)
			if parquetType(c) != parquetBytes {
				return nil, fmt.Errorf("column %s holds %q among others", c.Name, s)
			}
			values = append(binary.LittleEndian.AppendUint32(values, uint32(len(s))), s...)
		}
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
	return append(append(out, levels...), values...), nil
}

// thrift is a structure being written in Thrift's compact protocol: fields in
// ascending order, each named by how far it is from the one before.
type thrift struct {
	b    []byte
	last byte
}

// Types of the protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI8     = 3
	thriftI32    = 5
	thriftI64    = 6
	thriftBytes  = 8
	thriftList   = 9
	thriftStruct = 12
)

func (t *thrift) field(id, typ byte) *thrift {
	t.b, t.last = append(t.b, (id-t.last)<<4|typ), id // ids here are never 15 apart
	return t
}

func zigzag(x int64) []byte           { return binary.AppendVarint(nil, x) }
func sized(s string) []byte           { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
func (t *thrift) end() []byte         { return append(t.b, 0) }
func (t *thrift) yes(id byte) *thrift { return t.field(id, thriftTrue) }

func (t *thrift) i(id byte, x int64) *thrift {
	t.field(id, thriftI32)
	t.b = append(t.b, zigzag(x)...)
	return t
}

func (t *thrift) long(id byte, x int64) *thrift {
	t.field(id, thriftI64)
	t.b = append(t.b, zigzag(x)...)
	return t
}

func (t *thrift) text(id byte, s string) *thrift {
	t.field(id, thriftBytes)
	t.b = append(t.b, sized(s)...)
	return t
}

func (t *thrift) structure(id byte, s []byte) *thrift {
	t.field(id, thriftStruct)
	t.b = append(t.b, s...)
	return t
}

func (t *thrift) list(id, typ byte, items [][]byte) *thrift {
	t.field(id, thriftList)
	if len(items) < 15 {
		t.b = append(t.b, byte(len(items))<<4|typ)
	} else {
		t.b = binary.AppendUvarint(append(t.b, 0xf0|typ), uint64(len(items)))
	}
	for _, x := range items {
		t.b = append(t.b, x...)
	}
	return t
}
