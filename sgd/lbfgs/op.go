package lbfgs

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

// Kind is what an Op does.
type Kind uint8

// Kinds of ops.
const (
	Copy  Kind = iota // dst = src
	Axpy              // dst += a·src
	Scale             // dst *= a
	Dot               // dst·src
	kinds
)

// Op is one thing to do to vectors.
type Op struct {
	Kind     Kind
	Dst, Src Vec
	A        float64
}

// Copied is dst = src.
func Copied(dst, src Vec) Op { return Op{Kind: Copy, Dst: dst, Src: src} }

// Added is dst += a·src.
func Added(dst Vec, a float64, src Vec) Op { return Op{Kind: Axpy, Dst: dst, Src: src, A: a} }

// Scaled is dst *= a.
func Scaled(dst Vec, a float64) Op { return Op{Kind: Scale, Dst: dst, Src: dst, A: a} }

// Dotted is the dot product of a and b.
func Dotted(a, b Vec) Op { return Op{Kind: Dot, Dst: a, Src: b} }

// Writes says whether ops change v.
func Writes(ops []Op, v Vec) bool {
	for _, o := range ops {
		if o.Dst == v && o.Kind != Dot {
			return true
		}
	}
	return false
}

const opLen = 1 + 2 + 2 + 8

// AppendOps appends ops as bytes: kind, dst, src and a of each, little-endian.
func AppendOps(b []byte, ops []Op) []byte {
	for _, o := range ops {
		b = append(b, byte(o.Kind))
		b = binary.LittleEndian.AppendUint16(b, uint16(o.Dst))
		b = binary.LittleEndian.AppendUint16(b, uint16(o.Src))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(o.A))
	}
	return b
}

// ParseOps reads what AppendOps wrote for a problem of so many vectors; any other
// bytes are an error.
func ParseOps(b []byte, vectors int) ([]Op, error) {
	if len(b)%opLen != 0 {
		return nil, fmt.Errorf("lbfgs: %d bytes of commands, want a multiple of %d", len(b), opLen)
	}
	ops := make([]Op, 0, len(b)/opLen)
	for ; len(b) > 0; b = b[opLen:] {
		o := Op{Kind(b[0]), Vec(binary.LittleEndian.Uint16(b[1:])), Vec(binary.LittleEndian.Uint16(b[3:])), math.Float64frombits(binary.LittleEndian.Uint64(b[5:]))}
		if o.Kind >= kinds || int(o.Dst) >= vectors || int(o.Src) >= vectors {
			return nil, fmt.Errorf("lbfgs: command %d on vectors %d and %d of %d", o.Kind, o.Dst, o.Src, vectors)
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// Memory is vectors, or the same slice of each, by number. All have one length.
type Memory [][]float32

// NewMemory makes the vectors of a problem in n dimensions, all 0.
func NewMemory(history, n int) Memory {
	m := make(Memory, Vectors(history))
	for i := range m {
		m[i] = make([]float32, n)
	}
	return m
}

// Do carries out ops in order and appends the dot products among them to dots.
func (m Memory) Do(dots []float64, ops []Op) []float64 {
	for _, o := range ops {
		dst, src := m[o.Dst], m[o.Src]
		switch o.Kind {
		case Copy:
			copy(dst, src)
		case Axpy:
			f32.Axpy(dst, float32(o.A), src)
		case Scale:
			f32.Scale(dst, float32(o.A))
		case Dot:
			dots = append(dots, f32.Dot(dst, src))
		}
	}
	return dots
}
