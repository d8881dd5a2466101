package data

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
)

// images is a set of labelled pictures as bytes: sample after sample, each
// channel by channel, row by row.
type images struct {
	sh    sgd.Shape
	cls   int
	pix   []uint8 // len(label) · sh.Len()
	label []int32
	hold  *regular.Mapping // of pix, if it is a file's
}

// check verifies that every label is a class and that there is a pixel for
// every place.
func (m *images) check() error {
	if len(m.label) == 0 || m.sh.Len() == 0 {
		return fmt.Errorf("no samples")
	}
	if len(m.pix) != len(m.label)*m.sh.Len() {
		return fmt.Errorf("%d bytes for %d samples of %s", len(m.pix), len(m.label), m.sh)
	}
	for i, y := range m.label {
		if y < 0 || int(y) >= m.cls {
			return fmt.Errorf("sample %d has label %d, with %d classes", i, y, m.cls)
		}
	}
	return nil
}

// digest identifies the pictures: two CRC-32s with different polynomials over
// geometry, labels and pixels. It guards against mix-ups, not against malice.
func digest(sets ...*images) uint64 {
	a, b := crc32.New(castagnoli), crc32.NewIEEE()
	var head []byte
	for _, m := range sets {
		head = head[:0]
		for _, v := range []int{m.sh.C, m.sh.H, m.sh.W, m.cls, len(m.label)} {
			head = binary.LittleEndian.AppendUint64(head, uint64(v))
		}
		for _, y := range m.label {
			head = binary.LittleEndian.AppendUint32(head, uint32(y))
		}
		for _, p := range [][]byte{head, m.pix} {
			a.Write(p)
			b.Write(p)
		}
	}
	return uint64(a.Sum32())<<32 | uint64(b.Sum32())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scale turns bytes into inputs: table c maps a byte of channel c to
// (v/top − mean)/std.
type scale []table

// table maps a byte of one channel to its input value.
type table [256]float32

func newScale(channels int, top float32, mean, std []float32) scale {
	s := make(scale, channels)
	for c := range s {
		m, d := mean[min(c, len(mean)-1)], std[min(c, len(std)-1)]
		for v := range s[c] {
			s[c][v] = (float32(float32(v)/top) - m) / d
		}
	}
	return s
}

// view turns stored bytes into a sample: scaled, and moved by augmentation.
type view struct {
	scale
	pad     int  // augmentation shifts by up to pad pixels, black coming in
	reflect bool // or the border reflected
	flip    bool // and mirrors half of the images
	extra   Augmentation
}

// write writes the picture src of sample i, of shape sh, into x as j shows it.
func (v *view) write(i int, x []float32, src []uint8, sh sgd.Shape, j jitter) {
	if j.side == 0 || j.side == sh.H {
		v.show(i, x, src, sh, j)
		return
	}
	c := canvases.Get().(*canvas)
	defer canvases.Put(c)
	s, n, m := &c.shrinker, sh.H*sh.W, j.side*j.side
	s.whole = grow(s.whole, sh.Len())
	v.show(i, s.whole, src, sh, j)
	for k := range sh.C {
		s.scale(x[k*m:(k+1)*m], s.whole[k*n:(k+1)*n], j.side, sh.H)
	}
}

// show is write at the shape of the picture.
func (v *view) show(i int, x []float32, src []uint8, sh sgd.Shape, j jitter) {
	plane := sh.H * sh.W
	dx, dy, flip := j.shift(v.pad, v.flip)
	flip = v.extra.mirror(flip, i, j)
	for c := range v.scale {
		from, to := src[c*plane:(c+1)*plane], x[c*plane:(c+1)*plane]
		v.scale[c].moved(to, from, sh.H, sh.W, dx, dy, flip, v.reflect)
	}
	v.extra.after(x, sh, j)
}

// held serves images from memory.
type held struct {
	*images
	view
}

func (h *held) len() int         { return len(h.label) }
func (h *held) form() sgd.Sample { return sgd.Sample{Shape: h.sh, Classes: h.cls} }

func (h *held) read(i int, j jitter, to Item) error {
	dim := h.sh.Len()
	h.write(i, to.X, h.pix[i*dim:(i+1)*dim], h.sh, j)
	runtime.KeepAlive(h.images) // and with it what pix is mapped from
	to.Y[0] = h.label[i]
	return nil
}
