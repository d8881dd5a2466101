package compress

import (
	"errors"
	"testing"
)

// Nothing may follow the last element, not even a byte that holds none.
func TestThreeLCTakesOneEncoding(t *testing.T) {
	c, err := ThreeLC{S: 1}.New(Block{Rows: 1, Cols: 10, World: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Append(nil, make([]float32, 10), Step{})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, 10)
	if err := c.AddTo(dst, 1, p, From{}); err != nil {
		t.Error(err)
	}
	for _, extra := range []byte{0, 1, fiveZeros, 243} {
		if err := c.AddTo(dst, 1, append(p[:len(p):len(p)], extra), From{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d behind the last byte: %v", extra, err)
		}
	}
}
