package jpeg

import "image"

// Exact decodes the part of a picture that is given in pixels to the bits of image/jpeg
// of Go 1.26, in coordinates of the picture; its bounds hold the part and may be larger.
// It reads all of the picture, and leaves whatever is not quite common to others, by an
// error: all but baseline pictures of one scan, and all that are damaged. So a picture
// that it decodes is one that image/jpeg decodes. What comes back is overwritten by the
// next call.
func (d *Decoder) Exact(b []byte, part image.Rectangle) (image.Image, error) {
	d.exact = true
	defer func() { d.exact = false }()
	return d.Decode(b, 1, part)
}

// common tells whether a segment is one that image/jpeg knows, and that this package
// reads as it does.
func common(m byte) bool {
	return m == 0xc0 || m == 0xc4 || m == 0xdb || m == 0xdd || m >= 0xe0 && m <= 0xef || m == 0xfe
}

// usual tells whether the scan of all components has been the whole of a picture, and
// nothing comes after it.
func (d *Decoder) usual(order []*component) bool {
	for _, c := range order {
		if c.td > 1 || c.ta > 1 {
			return false
		}
	}
	return len(order) == len(d.comps) && len(d.b) >= d.at+2 && d.b[d.at] == 0xff && d.b[d.at+1] == 0xd9
}

// Constants of the transform of image/jpeg: 1/√2, and cosines and sines of multiples of
// π/16, those of 6π/16 times 1/√2; with so many bits behind the point.
const (
	half8, half14      = 181, 11585
	cos1, sin1         = 4017, 799     // 12
	cos3, sin3         = 3406, 2276    // 12
	cos6, sin6         = 1108, 2676    // 12
	cos6Fine, sin6Fine = 70936, 171254 // 18
)

// turn rotates and scales by three products.
func turn(x, y, cos, sin int32) (u, v int32) {
	sum := cos * (x + y)
	return sum - (sin+cos)*y, sum + (sin-cos)*x
}

// exact8Go is idct8Go as image/jpeg of Go 1.26 does it: rows before columns, with a
// transform of 11 products (Loeffler, Ligtenberg and Moschytz 1989). It leaves f in
// disorder.
func exact8Go(f *[64]int32, to []uint8, stride int) {
	for y := range 8 {
		r := (*[8]int32)(f[8*y:])
		x0, x1 := r[0]<<17+r[4]<<17, r[0]<<17-r[4]<<17
		x2, x3 := turn(r[2], r[6], cos6Fine, sin6Fine)
		x7, x4 := r[1]<<7+r[7]<<7, r[1]<<7-r[7]<<7
		x5, x6 := r[3]*half8, r[5]*half8
		x4, x5, x6, x7 = x4+x6, x7-x5, x4-x6, x7+x5
		x4, x7 = turn(x4>>2, x7>>2, cos3, sin3)
		x5, x6 = turn(x5>>2, x6>>2, cos1, sin1)
		*r = meet(x0, x1, x2, x3, x4, x5, x6, x7)
	}
	for x := range 8 {
		c := f[x:]
		_ = c[56]
		x0, x1 := (c[0]+1<<19+c[32])>>2, (c[0]+1<<19-c[32])>>2
		x2, x3 := turn(c[16]>>13, c[48]>>13, cos6, sin6)
		x7, x4 := c[8]+c[56], c[8]-c[56]
		x5, x6 := c[24]>>13*half14, c[40]>>13*half14
		x4, x5, x6, x7 = x4+x6, x7-x5, x4-x6, x7+x5
		x4, x7 = turn(x4>>14, x7>>14, cos3, sin3)
		x5, x6 = turn(x5>>14, x6>>14, cos1, sin1)
		for y, v := range meet(x0, x1, x2, x3, x4, x5, x6, x7) {
			to[y*stride+x] = uint8(min(max(v>>18+128, 0), 255))
		}
	}
}

// meet is the last butterflies of eight points.
func meet(x0, x1, x2, x3, x4, x5, x6, x7 int32) [8]int32 {
	x0, x1, x2, x3 = x0+x3, x1+x2, x1-x2, x0-x3
	return [8]int32{x0 + x7, x1 + x6, x2 + x5, x3 + x4, x3 - x4, x2 - x5, x1 - x6, x0 - x7}
}

// exact8 writes the block of frequencies f as samples. A block of the mean alone is
// filled, where no number overflows. It leaves f in disorder.
func exact8(f *[64]int32, last int, to []uint8, stride int) {
	switch mean := f[0]; {
	case last == 0 && mean > -1<<13 && mean < 1<<13:
		flat(mean, 8, to, stride)
	case simd:
		_ = to[7*stride+7]
		exact8AVX2(f, &to[0], stride)
	default:
		exact8Go(f, to, stride)
	}
}
