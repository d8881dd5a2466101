package wire

import (
	"encoding/binary"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

// Formats gives collectives the arithmetic of each wire format: sums are made
// in float32, and rounded again at every hop where the wire is narrower.
var Formats = [compress.Wires]collective.Format{
	compress.F32:  wireF32{},
	compress.F16:  wireF16{},
	compress.BF16: wireBF16{},
	compress.I8:   wireI8{},
	compress.I16:  wireI16{},
}

type wireF32 struct{}

func (wireF32) Width() int                       { return 4 }
func (wireF32) Fold() comm.Fold                  { return comm.SumFloat32 }
func (wireF32) Bytes(x []float32) ([]byte, bool) { return f32.Bytes(x) }
func (wireF32) Put(dst []byte, x []float32)      { f32.AppendBytes(dst[:0], x) }
func (wireF32) Add(x []float32, src []byte)      { f32.AddBytes(x, 1, src) }
func (wireF32) Set(x []float32, src []byte)      { f32.FromBytes(x, src) }

type wireF16 struct{}

func (wireF16) Width() int                  { return 2 }
func (wireF16) Put(dst []byte, x []float32) { f32.RoundFP16(x); f32.EncodeFP16(dst, x) }
func (wireF16) Add(x []float32, src []byte) { f32.AddFP16(x, 1, src) }
func (wireF16) Set(x []float32, src []byte) { f32.DecodeFP16(x, src) }

type wireBF16 struct{}

func (wireBF16) Width() int                  { return 2 }
func (wireBF16) Put(dst []byte, x []float32) { f32.RoundBF16(x); f32.EncodeBF16(dst, x) }
func (wireBF16) Add(x []float32, src []byte) { f32.AddBF16(x, 1, src) }
func (wireBF16) Set(x []float32, src []byte) { f32.DecodeBF16(x, src) }

// Max makes maxima where the format of float32 makes sums.
type Max struct{ wireF32 }

// Fold implements collective.Folding.
func (Max) Fold() comm.Fold { return comm.MaxFloat32 }

// Add implements collective.Format.
func (Max) Add(x []float32, src []byte) {
	for i := range x {
		x[i] = max(x[i], math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

// wireI8 and wireI16 carry whole numbers that fit them; no sum is rounded.
type wireI8 struct{}

func (wireI8) Width() int                  { return 1 }
func (wireI8) Fold() comm.Fold             { return comm.SumInt8 }
func (wireI8) Put(dst []byte, x []float32) { codec.PutI8(dst[:len(x)], x) }
func (wireI8) Add(x []float32, src []byte) { codec.AddI8(x, src[:len(x)]) }
func (wireI8) Set(x []float32, src []byte) { codec.SetI8(x, src[:len(x)]) }

type wireI16 struct{}

func (wireI16) Width() int                  { return 2 }
func (wireI16) Fold() comm.Fold             { return comm.SumInt16 }
func (wireI16) Put(dst []byte, x []float32) { codec.PutI16(dst[:2*len(x)], x) }
func (wireI16) Add(x []float32, src []byte) { codec.AddI16(x, src[:2*len(x)]) }
func (wireI16) Set(x []float32, src []byte) { codec.SetI16(x, src[:2*len(x)]) }
