package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// ofLengths is a codec whose payloads have lengths of their own.
type ofLengths struct {
	compress.Codec
	of []int
}

func (c *ofLengths) Append(dst []byte, _ []float32, _ compress.Step) ([]byte, error) {
	n := c.of[0]
	c.of = c.of[1:]
	return append(dst, bytes.Repeat([]byte{byte(n)}, n)...), nil
}

// A payload follows its length, whatever room was left for that.
func TestAppendSized(t *testing.T) {
	lengths := []int{3, 0, 200, 127, 128, 20000, 1, 1 << 21}
	for _, wide := range []int{0, 1, 3, 10} {
		c := &ofLengths{of: lengths}
		var got, want []byte
		for _, n := range lengths {
			want = append(binary.AppendUvarint(want, uint64(n)), bytes.Repeat([]byte{byte(n)}, n)...)
			var err error
			if got, n, err = AppendSized(got, nil, c, compress.Step{}, &wide); err != nil || n != lengths[len(lengths)-len(c.of)-1] {
				t.Fatal(n, err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("of %d bytes, %d are not what is wanted", len(got), len(want))
		}
	}
}
