package data

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"sync"

	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/gradlab/gradlab/sgd"
)

// frame chooses the part of a w×h picture that becomes the sample.
type frame func(w, h int) image.Rectangle

// decode unpacks a picture, scales the part that fr chooses to sh (1 or 3
// channels) and writes it to pix, channel by channel. Grey, palette and CMYK
// pictures are converted; transparency and EXIF are ignored.
func decode(b []byte, sh sgd.Shape, fr frame, pix []uint8) error {
	img, err := decodeImage(b)
	if err != nil {
		return err
	}
	box := img.Bounds()
	part := fr(box.Dx(), box.Dy()).Add(box.Min).Intersect(box)
	if part.Empty() {
		return fmt.Errorf("an empty picture")
	}
	scaleTo(img, part, sh, pix)
	return nil
}

// scaleTo scales part of img to sh and writes it to pix.
func scaleTo(img image.Image, part image.Rectangle, sh sgd.Shape, pix []uint8) {
	out := canvases.Get().(*canvas)
	defer canvases.Put(out)
	plane := sh.W * sh.H
	colours := pix
	if sh.C == 1 {
		out.colours = grow(out.colours, 3*plane)
		colours = out.colours
	}
	rgba := out.size(sh.W, sh.H)
	if part.Dx() == sh.W && part.Dy() == sh.H {
		draw.Draw(rgba, rgba.Bounds(), img, part.Min, draw.Src)
	} else {
		draw.BiLinear.Scale(rgba, rgba.Bounds(), img, part, draw.Src, nil)
	}
	for i, p := 0, rgba.Pix; i < plane; i, p = i+1, p[4:] {
		colours[i], colours[plane+i], colours[2*plane+i] = p[0], p[1], p[2]
	}
	if sh.C == 1 {
		for i := range pix[:plane] {
			pix[i] = uint8((299*int(colours[i]) + 587*int(colours[plane+i]) + 114*int(colours[2*plane+i]) + 500) / 1000)
		}
	}
}

// decodeImage refuses a picture whose header promises far more than its bytes
// can hold, before anything is allocated for it. Of several pictures in a file it is the
// first.
func decodeImage(b []byte) (image.Image, error) {
	config, full := formOf(b)
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if !plausible(c.Width, c.Height, len(b)) {
		return nil, fmt.Errorf("%d×%d pixels in %d bytes", c.Width, c.Height, len(b))
	}
	img, err := full(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return colours(img), nil
}

// formOf is what reads a picture's geometry and what decodes it.
func formOf(b []byte) (config func(io.Reader) (image.Config, error), full func(io.Reader) (image.Image, error)) {
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		return jpeg.DecodeConfig, jpeg.Decode
	case bytes.HasPrefix(b, []byte("\x89PNG")):
		return png.DecodeConfig, png.Decode
	case isWebP(b) && isAnimated(b):
		return none(errAnimated)
	case isWebP(b):
		return webp.DecodeConfig, decodeWebP
	case isBMP(b):
		return bmp.DecodeConfig, bmp.Decode
	case isGIF(b):
		return gif.DecodeConfig, func(io.Reader) (image.Image, error) { return decodeGIF(b) }
	case isTIFF(b):
		return tiff.DecodeConfig, func(io.Reader) (image.Image, error) { return decodeTIFF(b) }
	}
	return none(fmt.Errorf("neither JPEG, PNG, WebP, GIF, BMP nor TIFF; it begins with %q", b[:min(len(b), 16)]))
}

// none reads no picture.
func none(why error) (func(io.Reader) (image.Config, error), func(io.Reader) (image.Image, error)) {
	return func(io.Reader) (image.Config, error) { return image.Config{}, why }, func(io.Reader) (image.Image, error) { return nil, why }
}

// plausible tells whether a picture of so many bytes can have so many pixels.
func plausible(w, h, bytes int) bool {
	const most = 1 << 26 // pixels, 67 million
	return w >= 1 && h >= 1 && w <= most/h && w*h <= 1<<16+4096*bytes
}

// canvas is a reusable picture to draw samples on.
type canvas struct {
	rgba    image.RGBA
	pix     []uint8 // of a decoded sample, channel by channel
	colours []uint8 // of a sample that becomes grey
	whole   []uint8 // a picture at the short side of a set
	small   shrunk  // the same, or a view of one that is kept
	bytes   []byte  // what it is a view of, if none is kept
	shrinker
}

var canvases = sync.Pool{New: func() any { return new(canvas) }}

func (c *canvas) size(w, h int) *image.RGBA {
	c.rgba = image.RGBA{Pix: grow(c.rgba.Pix, 4*w*h), Stride: 4 * w, Rect: image.Rect(0, 0, w, h)}
	return &c.rgba
}

// jpegQuality estimates the quality setting (1–100) of the Independent JPEG
// Group's scale from the first quantisation table, 0 if b is no JPEG with one.
func jpegQuality(b []byte) int {
	const standard = 3688 // sum of the luminance table at quality 50
	for i := 2; i+4 < len(b) && b[i] == 0xff; {
		n := int(b[i+2])<<8 | int(b[i+3])
		if b[i+1] == 0xdb && n >= 67 && i+69 <= len(b) && b[i+4]>>4 == 0 {
			sum := 0
			for _, q := range b[i+5 : i+69] {
				sum += int(q)
			}
			if s := 100 * float64(sum) / standard; s <= 100 {
				return min(100, int(float64((200-s)/2)+.5))
			} else {
				return max(1, int(5000/s+.5))
			}
		}
		i += 2 + n
	}
	return 0
}
