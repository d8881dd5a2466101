package store

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
)

// parquetRows is how many rows a row group of a Parquet file has at most.
const parquetRows = 1 << 16

// WriteParquet writes the frame as a Parquet file of optional columns: doubles, bools,
// UTF-8 strings, whole numbers of 64 bits without sign, and instants in microseconds, compressed by Snappy. Columns are in the
// order of the frame.
func (t *Frame) WriteParquet(w io.Writer) error {
	root := inOrder{parquet.Group{}, nil}
	for _, c := range t.Columns {
		root.Group[c.Name] = parquet.Optional(parquetNode(c.Kind))
		root.names = append(root.names, c.Name)
	}
	out := parquet.NewWriter(w, parquet.NewSchema("runs", root), parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(parquetRows), parquet.CreatedBy("gradlab", "", ""))
	row := make(parquet.Row, len(t.Columns))
	for i := range t.Rows {
		for j, c := range t.Columns {
			v, err := parquetValue(c, c.Values[i])
			if err != nil {
				return err
			}
			defined := 1
			if v.IsNull() {
				defined = 0
			}
			row[j] = v.Level(0, defined, j)
		}
		if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
			return err
		}
	}
	return out.Close()
}

// inOrder is a group whose fields are not in the order of the alphabet.
type inOrder struct {
	parquet.Group
	names []string
}

// Fields implements parquet.Node.
func (g inOrder) Fields() []parquet.Field {
	fs := g.Group.Fields()
	slices.SortFunc(fs, func(a, b parquet.Field) int { return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name()) })
	return fs
}

func parquetNode(k Kind) parquet.Node {
	switch {
	case k == Instant:
		return parquet.Timestamp(parquet.Microsecond)
	case k == Bool:
		return parquet.Leaf(parquet.BooleanType)
	case k.isWhole():
		return parquet.Uint(64)
	case k.Numeric():
		return parquet.Leaf(parquet.DoubleType)
	}
	return parquet.String()
}

// isWhole reports whether values are uint64.
func (k Kind) isWhole() bool { return k == Whole || k == Bytes }

// parquetValue is a value of a column, which has to be of the column's kind.
func parquetValue(c Column, v any) (parquet.Value, error) {
	text := c.Kind != Instant && c.Kind != Bool && !c.Kind.Numeric()
	switch x := v.(type) {
	case nil:
		return parquet.NullValue(), nil
	case time.Time:
		if c.Kind == Instant {
			return parquet.Int64Value(x.UnixMicro()), nil
		}
	case bool:
		if c.Kind == Bool {
			return parquet.BooleanValue(x), nil
		}
	case float64:
		if c.Kind.Numeric() && !c.Kind.isWhole() {
			return parquet.DoubleValue(x), nil
		}
	case uint64:
		if c.Kind.isWhole() {
			return parquet.Int64Value(int64(x)), nil // the column's type says that it has no sign
		}
	default:
		if text {
			return parquet.ByteArrayValue([]byte(exact(x))), nil
		}
	}
	return parquet.Value{}, fmt.Errorf("column %s holds %v among others", c.Name, v)
}
