// Package jpeg decodes a part of a JPEG at 1/1, 1/2, 1/4 or 1/8 of its size.
//
// Blocks outside of the part are not transformed, and at a reduced size only the
// lowest 4×4, 2×2 or 1×1 frequencies of a block are: the N-point inverse DCT of the
// N lowest frequencies is the block at N/8 of its size. The entropy code has to be
// read in full up to the last row of the part.
//
// Exact decodes at 1/1 to the bits of image/jpeg, and reads all of the picture.
//
// It reads what nearly all photographs are: baseline and progressive Huffman JPEGs
// (ITU-T T.81) of 8 bits, grey or YCbCr. Anything else is ErrUnsupported, to be left
// to image/jpeg, which at 1/1 gives the same pictures within two levels. Bytes below
// the part are not looked at, so damage there is not noticed.
package jpeg

import (
	"errors"
	"fmt"
	"image"
)

// ErrUnsupported says that a picture is of a sort this package leaves to others.
var ErrUnsupported = errors.New("jpeg: a sort of picture that is not decoded here")

// errShort says that the data end too early.
var errShort = errors.New("jpeg: the data end too early")

// Decoder holds memory that is used again by the next picture. The zero value is
// ready; it is not for concurrent use.
type Decoder struct {
	b  []byte // all of it
	at int

	width, height int
	progressive   bool
	comps         []component
	space         [3]component
	hmax, vmax    int
	mcusX, mcusY  int
	interval      int // MCUs between restarts, 0 for none
	adobe         int // transform of the Adobe marker, −1 without
	quant         [4][64]uint16
	dc, ac        [4]huffman

	n      int // samples a block is wide, 8 … 1
	part   image.Rectangle
	mx, my [2]int // MCUs of the part, [0] … [1]−1

	head  []byte // of the scan to come
	order [3]*component
	bits  bitReader
	eob   int // blocks left of an end-of-band run
	f     [64]int32
	exact bool // as image/jpeg decodes
}

// component is one channel.
type component struct {
	id     byte
	h, v   int // blocks in an MCU
	tq     byte
	bw, bh int // blocks, without those that only fill the last MCUs
	pix    []uint8
	stride int
	coef   []int16 // of progressive pictures: 64 a block, rows of mcusX·h blocks
	pred   int32
	td, ta byte
}

// Config is what the header says. Components is 1 or 3.
type Config struct{ Width, Height, Components int }

// Header reads the picture's geometry.
func (d *Decoder) Header(b []byte) (Config, error) {
	d.begin(b)
	_, err := d.markers()
	return Config{d.width, d.height, len(d.comps)}, err
}

// Decode decodes the part of a picture that is given in pixels of the full size, at
// 1/scale of it; scale is 1, 2, 4 or 8. What comes back is an *image.Gray or
// *image.YCbCr in coordinates of the scaled picture, of ceil(width/scale) pixels; its
// bounds hold the part and may be larger. It is overwritten by the next call.
func (d *Decoder) Decode(b []byte, scale int, part image.Rectangle) (image.Image, error) {
	if scale != 1 && scale != 2 && scale != 4 && scale != 8 {
		return nil, fmt.Errorf("jpeg: scale 1/%d; want 1/1, 1/2, 1/4 or 1/8", scale)
	}
	d.begin(b)
	sos, err := d.markers()
	if err != nil {
		return nil, err
	}
	if d.exact && !sos {
		return nil, ErrUnsupported
	}
	part = part.Intersect(image.Rect(0, 0, d.width, d.height))
	if part.Empty() {
		return nil, errors.New("jpeg: the part lies outside of the picture")
	}
	d.n, d.part = 8/scale, part
	w, h := 8*d.hmax, 8*d.vmax
	d.mx = [2]int{part.Min.X / w, (part.Max.X + w - 1) / w}
	d.my = [2]int{part.Min.Y / h, (part.Max.Y + h - 1) / h}
	d.room()
	for sos {
		done, err := d.scan()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		if sos, err = d.markers(); err != nil {
			return nil, err
		}
	}
	if d.progressive {
		d.transformAll()
	}
	return d.picture(scale), nil
}

// begin sets what a picture may leave unsaid.
func (d *Decoder) begin(b []byte) {
	d.b, d.at, d.width, d.height, d.comps, d.interval, d.adobe = b, 0, 0, 0, nil, 0, -1
	for i := range d.dc {
		d.dc[i].ok, d.ac[i].ok = false, false
		d.quant[i] = [64]uint16{}
	}
}

// room makes the planes of the part, and coefficients if those are needed.
func (d *Decoder) room() {
	for i := range d.comps {
		c := &d.comps[i]
		c.stride = (d.mx[1] - d.mx[0]) * c.h * d.n
		c.pix = grow(c.pix, c.stride*(d.my[1]-d.my[0])*c.v*d.n)
		clear(c.pix)
		if d.progressive {
			c.coef = grow(c.coef, 64*d.mcusX*c.h*d.mcusY*c.v)
			clear(c.coef)
		}
	}
	copy(d.space[:], d.comps)
}

func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

// picture wraps the planes.
func (d *Decoder) picture(scale int) image.Image {
	n := d.n
	r := image.Rect(d.mx[0]*d.hmax*n, d.my[0]*d.vmax*n,
		min(d.mx[1]*d.hmax*n, (d.width+scale-1)/scale), min(d.my[1]*d.vmax*n, (d.height+scale-1)/scale))
	if len(d.comps) == 1 {
		return &image.Gray{Pix: d.comps[0].pix, Stride: d.comps[0].stride, Rect: r}
	}
	y, cb, cr := &d.comps[0], &d.comps[1], &d.comps[2]
	return &image.YCbCr{Y: y.pix, Cb: cb.pix, Cr: cr.pix, YStride: y.stride, CStride: cb.stride, SubsampleRatio: ratios[[2]int{y.h, y.v}], Rect: r}
}

// ratios is the subsamplings that image.YCbCr knows, by the blocks of luma an MCU.
var ratios = map[[2]int]image.YCbCrSubsampleRatio{
	{1, 1}: image.YCbCrSubsampleRatio444, {2, 1}: image.YCbCrSubsampleRatio422, {1, 2}: image.YCbCrSubsampleRatio440,
	{2, 2}: image.YCbCrSubsampleRatio420, {4, 1}: image.YCbCrSubsampleRatio411, {4, 2}: image.YCbCrSubsampleRatio410,
}

// markers reads segments up to and including a start of scan; false is the end of
// the picture.
func (d *Decoder) markers() (sos bool, err error) {
	if d.at == 0 {
		if len(d.b) < 2 || d.b[0] != 0xff || d.b[1] != 0xd8 {
			return false, errors.New("jpeg: no JPEG")
		}
		d.at = 2
	}
	for {
		m, body, err := d.next()
		switch {
		case err != nil:
			return false, err
		case m == 0xd9 || m == 0xda:
			if d.comps == nil {
				return false, errors.New("jpeg: no frame before the scans")
			}
			d.head = body
			return m == 0xda, nil
		}
		if err := d.segment(m, body); err != nil {
			return false, err
		}
	}
}

// next reads a marker and what belongs to it.
func (d *Decoder) next() (m byte, body []byte, err error) {
	if d.at < len(d.b) && d.b[d.at] != 0xff {
		return 0, nil, ErrUnsupported // stray bytes: others may make sense of them
	}
	for d.at < len(d.b) && d.b[d.at] == 0xff {
		d.at++
	}
	if d.at >= len(d.b) {
		return 0, nil, errShort
	}
	m = d.b[d.at]
	d.at++
	if m == 0xd9 {
		return m, nil, nil
	}
	if m == 0 || m == 1 || m >= 0xd0 && m <= 0xd8 {
		return 0, nil, ErrUnsupported
	}
	if d.at+2 > len(d.b) {
		return 0, nil, errShort
	}
	n := int(d.b[d.at])<<8 | int(d.b[d.at+1])
	if n < 2 || d.at+n > len(d.b) {
		return 0, nil, errShort
	}
	body = d.b[d.at+2 : d.at+n]
	d.at += n
	return m, body, nil
}

// segment takes in what stands before a scan.
func (d *Decoder) segment(m byte, body []byte) error {
	switch {
	case d.exact && !common(m):
		return ErrUnsupported
	case m == 0xc0, m == 0xc1, m == 0xc2:
		return d.frame(body, m == 0xc2)
	case m == 0xc4:
		return d.tables(body)
	case m >= 0xc3 && m <= 0xcf && m != 0xc8:
		return ErrUnsupported
	case m == 0xdb:
		return d.quants(body)
	case m == 0xdd && len(body) != 2:
		return errShort
	case m == 0xdd:
		d.interval = int(body[0])<<8 | int(body[1])
	case m == 0xee && len(body) >= 12 && string(body[:5]) == "Adobe":
		d.adobe = int(body[11])
	}
	return nil
}

// frame reads the geometry.
func (d *Decoder) frame(b []byte, progressive bool) error {
	if d.comps != nil || len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return errors.New("jpeg: a second frame, or one of another length")
	}
	if b[0] != 8 || b[5] != 1 && b[5] != 3 {
		return ErrUnsupported
	}
	d.progressive = progressive
	d.height, d.width = int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	if d.height == 0 || d.width == 0 {
		return ErrUnsupported
	}
	d.comps = d.space[:b[5]]
	d.hmax, d.vmax = 1, 1
	for i := range d.comps {
		c, s := &d.comps[i], b[6+3*i:]
		c.id, c.h, c.v, c.tq = s[0], int(s[1]>>4), int(s[1]&15), s[2]
		if len(d.comps) == 1 {
			c.h, c.v = 1, 1 // blocks of one component come one by one
		}
		if c.tq > 3 || c.h < 1 || c.v < 1 {
			return errors.New("jpeg: a component without a table or of no size")
		}
		if i > 0 && (c.h != 1 || c.v != 1) {
			return ErrUnsupported
		}
		d.hmax, d.vmax = max(d.hmax, c.h), max(d.vmax, c.v)
	}
	if _, ok := ratios[[2]int{d.comps[0].h, d.comps[0].v}]; !ok {
		return ErrUnsupported
	}
	if len(d.comps) == 3 && (d.adobe == 0 || d.comps[0].id == 'R' && d.comps[1].id == 'G' && d.comps[2].id == 'B') {
		return ErrUnsupported // red, green and blue
	}
	d.mcusX, d.mcusY = (d.width+8*d.hmax-1)/(8*d.hmax), (d.height+8*d.vmax-1)/(8*d.vmax)
	for i := range d.comps {
		c := &d.comps[i]
		c.bw = ((d.width*c.h+d.hmax-1)/d.hmax + 7) / 8
		c.bh = ((d.height*c.v+d.vmax-1)/d.vmax + 7) / 8
	}
	return nil
}

// quants reads quantisation tables, in zigzag order.
func (d *Decoder) quants(b []byte) error {
	for len(b) > 0 {
		wide, t := b[0]>>4, b[0]&15
		n := 64 * (1 + int(wide))
		if wide > 1 || t > 3 || len(b) < 1+n {
			return errShort
		}
		for i := range 64 {
			if wide == 0 {
				d.quant[t][i] = uint16(b[1+i])
			} else {
				d.quant[t][i] = uint16(b[1+2*i])<<8 | uint16(b[2+2*i])
			}
		}
		b = b[1+n:]
	}
	return nil
}
