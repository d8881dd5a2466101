package compress_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// A codec of two functions refuses what they need not look at, and then writes nothing.
func TestSimple(t *testing.T) {
	t.Parallel()
	values := func(v ...float32) (p []byte) {
		for _, x := range v {
			p = binary.LittleEndian.AppendUint32(p, math.Float32bits(x))
		}
		return p
	}
	c := compress.Simple(compress.Block{Rows: 1, Cols: 2},
		func(dst []byte, g []float32, _ compress.Step) []byte { return append(dst, values(g...)...) },
		func(out []float32, p []byte, _ compress.From) []byte {
			for i := range out {
				out[i], p = math.Float32frombits(binary.LittleEndian.Uint32(p)), p[4:]
			}
			return p
		})
	inf := float32(math.Inf(1))
	dst := []float32{1, 2}
	for _, p := range [][]byte{nil, values(3), values(3, 4, 5), values(3, inf)} {
		if err := c.AddTo(dst, 1, p, compress.From{}); !errors.Is(err, compress.ErrCorrupt) || !slices.Equal(dst, []float32{1, 2}) {
			t.Errorf("%d bytes: %v, %v", len(p), err, dst)
		}
	}
	p, err := c.Append([]byte{7}, []float32{3, 4}, compress.Step{})
	if err == nil {
		err = c.AddTo(dst, 2, p[1:], compress.From{})
	}
	if err != nil || p[0] != 7 || !slices.Equal(dst, []float32{7, 10}) {
		t.Errorf("%v, %v, %v", p, dst, err)
	}
	if p, err := c.Append([]byte{7}, []float32{3, inf}, compress.Step{}); !errors.Is(err, compress.ErrNotFinite) || len(p) != 1 {
		t.Errorf("%v, %v", p, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("another panic of the decoder is swallowed")
		}
	}()
	_ = compress.Simple(compress.Block{Rows: 1, Cols: 2}, nil, func([]float32, []byte, compress.From) []byte { panic("mine") }).AddTo(dst, 1, nil, compress.From{})
}
