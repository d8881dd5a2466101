package train

import (
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
)

// formats gives collectives the arithmetic of each wire format: sums are made
// in float32, and rounded again at every hop where the wire is narrower.
var formats = [...]collective.Format{
	compress.F32:  wireF32{},
	compress.F16:  wireF16{},
	compress.BF16: wireBF16{},
}

type wireF32 struct{}

func (wireF32) Width() int                       { return 4 }
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
