package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"io"

	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// colours returns the picture without its transparency: each pixel has the red, green and
// blue that the file says, as those of PIL's convert("RGB"). What a pixel that shows
// nothing holds is what whoever wrote the file left there. Pictures without transparency
// are returned as they are.
func colours(img image.Image) image.Image {
	switch m := img.(type) {
	case *image.NRGBA:
		for i := 3; i < len(m.Pix); i += 4 {
			m.Pix[i] = 0xff
		}
	case *image.NRGBA64:
		for i := 6; i < len(m.Pix); i += 8 {
			m.Pix[i], m.Pix[i+1] = 0xff, 0xff
		}
	case *image.Paletted:
		for i, c := range m.Palette {
			n := color.NRGBAModel.Convert(c).(color.NRGBA)
			n.A = 0xff
			m.Palette[i] = n
		}
	default:
		if o, ok := img.(interface{ Opaque() bool }); ok && o.Opaque() {
			return img
		}
		box := img.Bounds() // what is multiplied by alpha is divided by it
		out := image.NewNRGBA(box)
		for y := box.Min.Y; y < box.Max.Y; y++ {
			for x := box.Min.X; x < box.Max.X; x++ {
				c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
				c.A = 0xff
				out.SetNRGBA(x, y, c)
			}
		}
		return out
	}
	return img
}

// errAnimated refuses a WebP of several pictures, which golang.org/x/image does not read.
var errAnimated = errors.New("an animated WebP; want a picture that stands still, such as its first one")

// isAnimated reports whether a WebP says in its head that it is animated.
func isAnimated(b []byte) bool {
	return len(b) > 20 && string(b[12:16]) == "VP8X" && b[20]&2 != 0
}

// decodeWebP decodes a WebP to the pixels that libwebp gives. Those of a lossy one are
// luma and colours in the limited range of BT.601: black is 16, white 235, where package
// webp labels them as the full range of a JPEG.
func decodeWebP(r io.Reader) (image.Image, error) {
	img, err := webp.Decode(r)
	if err != nil {
		return nil, err
	}
	switch m := img.(type) {
	case *image.YCbCr:
		return limited(m), nil
	case *image.NYCbCrA:
		return limited(&m.YCbCr), nil
	}
	return img, nil
}

// limited converts a picture with colours at half the resolution, from BT.601's limited
// range, in libwebp's fixed point and with its filter between the colours of neighbours.
func limited(m *image.YCbCr) *image.NRGBA {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	cb, cr := make([]uint8, w), make([]uint8, w)
	last := (h+1)/2 - 1
	for y := range h {
		// A row's colours are those of the nearest row of colours, by three
		// quarters, and of the one on its other side.
		near, far := y/2, y/2-1
		if y%2 == 1 {
			far = y/2 + 1
		}
		far = max(0, min(last, far))
		between(cb, m.Cb[near*m.CStride:], m.Cb[far*m.CStride:])
		between(cr, m.Cr[near*m.CStride:], m.Cr[far*m.CStride:])
		luma, to := m.Y[y*m.YStride:], out.Pix[y*out.Stride:]
		for x := range w {
			l, u, v := int(luma[x])*19077>>8, int(cb[x]), int(cr[x])
			p := to[4*x : 4*x+4]
			p[0] = clip(l + v*26149>>8 - 14234)
			p[1] = clip(l - u*6419>>8 - v*13320>>8 + 8708)
			p[2] = clip(l + u*33050>>8 - 17685)
			p[3] = 0xff
		}
	}
	return out
}

// clip is a value in 64ths as a byte.
func clip(v int) uint8 { return uint8(max(0, min(0xff, v>>6))) }

// between fills a row with the colours between those of two rows of half its length:
// (9·near + 3·beside + 3·far + far beside)/16 away from the border, rounded as libwebp.
func between(out, near, far []uint8) {
	n := len(out)
	out[0] = uint8((3*int(near[0]) + int(far[0]) + 2) >> 2)
	for k := 1; k <= (n-1)/2; k++ {
		a, b, c, d := int(near[k-1]), int(near[k]), int(far[k-1]), int(far[k])
		sum := a + b + c + d + 8
		out[2*k-1] = uint8(((sum+2*(b+c))>>3 + a) >> 1)
		out[2*k] = uint8(((sum+2*(a+d))>>3 + b) >> 1)
	}
	if n%2 == 0 {
		k := n/2 - 1
		out[n-1] = uint8((3*int(near[k]) + int(far[k]) + 2) >> 2)
	}
}

// decodeGIF decodes the first picture of a GIF on its whole canvas. What it does not fill
// has the transparent colour of its palette, or the first one, as PIL has it.
func decodeGIF(b []byte) (image.Image, error) {
	shown, blank := shownGIF(b)
	c, err := gif.DecodeConfig(bytes.NewReader(shown))
	if err != nil {
		return nil, err
	}
	img, err := gif.Decode(bytes.NewReader(shown))
	if err != nil {
		return nil, err
	}
	whole := image.Rect(0, 0, c.Width, c.Height)
	m, ok := img.(*image.Paletted)
	if !ok || m.Rect == whole {
		return img, nil
	}
	out := image.NewPaletted(whole, m.Palette)
	for i := range out.Pix {
		out.Pix[i] = uint8(min(blank, len(m.Palette)-1))
	}
	for y := m.Rect.Min.Y; y < m.Rect.Max.Y; y++ {
		copy(out.Pix[out.PixOffset(m.Rect.Min.X, y):], m.Pix[m.PixOffset(m.Rect.Min.X, y):][:m.Rect.Dx()])
	}
	return out, nil
}

// shownGIF is a GIF whose first picture has no transparent colour, which package gif
// would make black, and the number of that colour, 0 for none.
func shownGIF(b []byte) (shown []byte, colour int) {
	if len(b) < 13 {
		return b, 0
	}
	at := 13
	if b[10]&0x80 != 0 {
		at += 3 << (1 + b[10]&7)
	}
	for at+8 < len(b) && b[at] == 0x21 {
		if b[at+1] == 0xf9 && b[at+3]&1 != 0 {
			b, colour = bytes.Clone(b), int(b[at+6])
			b[at+3] &^= 1
		}
		for at += 2; at < len(b) && b[at] != 0; {
			at += 1 + int(b[at])
		}
		at++
	}
	return b, colour
}

// Tags of a TIFF, and values of them.
const (
	tiffCompression = 259
	tiffPhotometric = 262
	tiffFillOrder   = 266
	tiffPlanar      = 284
	blackIsZero     = 1
	group3, group4  = 3, 4
)

// decodeTIFF decodes the first picture of a TIFF. It refuses forms that package tiff takes
// for others, and shows facsimiles whose zeros are black as libtiff does.
func decodeTIFF(b []byte) (image.Image, error) {
	fax := tiffTag(b, tiffCompression) == group3 || tiffTag(b, tiffCompression) == group4
	switch {
	case tiffTag(b, tiffPlanar) > 1:
		return nil, errors.New("a TIFF whose colours lie in planes of their own (PlanarConfiguration 2); want them pixel by pixel")
	case tiffTag(b, tiffFillOrder) > 1 && !fax:
		return nil, errors.New("a TIFF whose bits run backwards (FillOrder 2); want FillOrder 1")
	}
	img, err := tiff.Decode(bytes.NewReader(b))
	if m, ok := img.(*image.Gray); ok && err == nil && fax && tiffTag(b, tiffPhotometric) == blackIsZero {
		for i := range m.Pix {
			m.Pix[i] ^= 0xff
		}
	}
	return img, err
}

// tiffTag is the first value of a tag of a TIFF's first picture, 0 if it has none; of
// tags whose values are of 16 bits.
func tiffTag(b []byte, tag uint16) uint16 {
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	if len(b) < 8 {
		return 0
	}
	at := int64(order.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 0
	}
	for n := order.Uint16(b[at:]); n > 0; n-- {
		e := at + 2 + 12*int64(n-1)
		if e+12 <= int64(len(b)) && order.Uint16(b[e:]) == tag {
			return order.Uint16(b[e+8:])
		}
	}
	return 0
}
