package compress

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// State of codecs and exchanges for checkpoints. A residual is its length (0
// before the first step) as uint32 and its float32 values, little-endian; what
// follows belongs to the codec inside.

// Stateful is what must survive a restart. Codecs and exchanges that carry
// state implement it.
type Stateful interface {
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// stateOf is codec c with the state of the one inside, and its residual.
func stateOf(c, in Codec) Codec {
	s, ok := in.(Stateful)
	if !ok {
		return c
	}
	if r, ok := in.(Residualer); ok {
		return struct {
			Codec
			Stateful
			Residualer
		}{c, s, r}
	}
	return struct {
		Codec
		Stateful
	}{c, s}
}

func norm(x []float32) float64 { return math.Sqrt(f32.SumSq(x)) }

// appendTo appends the residual.
func (m *residual) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.e)))
	return f32.AppendBytes(b, m.e)
}

// restore reads what appendTo and the state of in left. On an error the
// residual is unchanged.
func (m *residual) restore(b []byte, in any) error {
	n, err := residualLen(b, m.d)
	if err != nil {
		return err
	}
	own, rest := b[4:n], b[n:]
	if !formatF32.finite(own) {
		return Corruptf("residual is not finite")
	}
	if err := restoreState(rest, in); err != nil {
		return err
	}
	if len(own) == 0 {
		m.e, m.p = nil, nil
		return nil
	}
	m.e, m.p = make([]float32, m.d), make([]float32, m.d)
	f32.FromBytes(m.e, own)
	return nil
}

// residualLen is the bytes that a residual of d elements, or none, takes at the
// beginning of b.
func residualLen(b []byte, d int) (int, error) {
	if len(b) < 4 {
		return 0, Corruptf("residual of %d bytes", len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n != 0 && n != int64(d) || int64(len(b)) < 4+4*n {
		return 0, Corruptf("residual of %d elements in %d bytes, want %d elements", n, len(b), d)
	}
	return 4 + 4*int(n), nil
}

// appendState appends the state of v, nothing if it has none.
func appendState(b []byte, v any) ([]byte, error) {
	if s, ok := v.(Stateful); ok {
		return s.AppendBinary(b)
	}
	return b, nil
}

// restoreState is the reverse.
func restoreState(b []byte, v any) error {
	if s, ok := v.(Stateful); ok {
		return s.UnmarshalBinary(b)
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes of state for %T, which has none", ErrCorrupt, len(b), v)
	}
	return nil
}

// appendStates appends the states of several, each behind its length.
func appendStates(b []byte, of []any) ([]byte, error) {
	for _, v := range of {
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		var err error
		if b, err = appendState(b, v); err != nil {
			return b, err
		}
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	return b, nil
}

// restoreStates is the reverse.
func restoreStates(b []byte, of []any) error {
	for _, v := range of {
		if len(b) < 4 || int64(len(b)-4) < int64(binary.LittleEndian.Uint32(b)) {
			return Corruptf("state of %d bytes", len(b))
		}
		n := 4 + int(binary.LittleEndian.Uint32(b))
		if err := restoreState(b[4:n], v); err != nil {
			return err
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return Corruptf("%d bytes behind the last state", len(b))
	}
	return nil
}
