package jpeg

import "encoding/binary"

// Inverse DCTs of N = 8, 4, 2 and 1 points. The orthonormal inverse of the N lowest
// frequencies of an 8-point DCT, scaled by √(N/8), is
//
//	x_n = (F_0 + √2·Σ_{0<u<N} F_u·cos((2n+1)uπ/2N)) / √8
//
// with the same constants for every N: the even frequencies of 8 points are those
// of 4, the even ones of these those of 2. Once down and once across makes 1/8.
// Integers with 13 bits behind the point; 2 bits are kept between the two.
const (
	fix  = 13
	keep = 2

	c1 = 11363 // √2·cos(π/16)·2¹³
	c2 = 10703 // √2·cos(2π/16)·2¹³
	c3 = 9633
	c5 = 6437
	c6 = 4433
	c7 = 2260
)

// four is the 4-point transform, without the factor 1/√8 and with fix more bits.
func four(f0, f1, f2, f3 int32) (x0, x1, x2, x3 int32) {
	e0, e1 := (f0+f2)<<fix, (f0-f2)<<fix
	o0, o1 := c2*f1+c6*f3, c6*f1-c2*f3
	return e0 + o0, e1 + o1, e1 - o1, e0 - o0
}

// odd is what the odd ones of 8 frequencies add to x_0 … x_3 and take from x_7 … x_4.
func odd(f1, f3, f5, f7 int32) (o0, o1, o2, o3 int32) {
	return c1*f1 + c3*f3 + c5*f5 + c7*f7,
		c3*f1 - c7*f3 - c1*f5 - c5*f7,
		c5*f1 - c1*f3 + c7*f5 + c3*f7,
		c7*f1 - c5*f3 + c3*f5 - c1*f7
}

// level is a sample of v, which has s bits behind the point.
func level(v int32, s uint) uint8 {
	v = (v+1<<(s-1))>>s + 128
	if uint32(v) > 255 {
		if v < 0 {
			return 0
		}
		return 255
	}
	return uint8(v)
}

// flat is idct of a block of one frequency, the mean.
func flat(f int32, n int, to []uint8, stride int) {
	v := level(f, 3)
	if n == 8 {
		row := 0x0101010101010101 * uint64(v)
		for y := range 8 {
			binary.NativeEndian.PutUint64(to[y*stride:], row)
		}
		return
	}
	for y := range n {
		for x := range n {
			to[y*stride+x] = v
		}
	}
}

// idct writes the block of frequencies f, rows of 8, as n×n samples. It leaves f in
// disorder.
func idct(f *[64]int32, n int, to []uint8, stride int) {
	switch n {
	case 8:
		if simd {
			_ = to[7*stride+7]
			idct8AVX2(f, &to[0], stride)
			return
		}
		idct8Go(f, to, stride)
	case 4:
		idct4(f, to, stride)
	case 2:
		a, b := f[0]+f[8], f[0]-f[8]
		c, d := f[1]+f[9], f[1]-f[9]
		to[0], to[1] = level(a+c, 3), level(a-c, 3)
		to[stride], to[stride+1] = level(b+d, 3), level(b-d, 3)
	default:
		to[0] = level(f[0], 3)
	}
}

func idct8Go(f *[64]int32, to []uint8, stride int) {
	const round = 1 << (fix - keep - 1)
	for x := range 8 {
		c := f[x:]
		_ = c[56]
		if c[8]|c[16]|c[24]|c[32]|c[40]|c[48]|c[56] == 0 {
			v := (c[0]<<fix + round) >> (fix - keep)
			c[0], c[8], c[16], c[24], c[32], c[40], c[48], c[56] = v, v, v, v, v, v, v, v
			continue
		}
		e0, e1, e2, e3 := four(c[0], c[16], c[32], c[48])
		o0, o1, o2, o3 := odd(c[8], c[24], c[40], c[56])
		c[0], c[56] = (e0+o0+round)>>(fix-keep), (e0-o0+round)>>(fix-keep)
		c[8], c[48] = (e1+o1+round)>>(fix-keep), (e1-o1+round)>>(fix-keep)
		c[16], c[40] = (e2+o2+round)>>(fix-keep), (e2-o2+round)>>(fix-keep)
		c[24], c[32] = (e3+o3+round)>>(fix-keep), (e3-o3+round)>>(fix-keep)
	}
	for y := range 8 {
		r, out := (*[8]int32)(f[8*y:]), (*[8]uint8)(to[y*stride:])
		e0, e1, e2, e3 := four(r[0], r[2], r[4], r[6])
		o0, o1, o2, o3 := odd(r[1], r[3], r[5], r[7])
		out[0], out[7] = level(e0+o0, fix+keep+3), level(e0-o0, fix+keep+3)
		out[1], out[6] = level(e1+o1, fix+keep+3), level(e1-o1, fix+keep+3)
		out[2], out[5] = level(e2+o2, fix+keep+3), level(e2-o2, fix+keep+3)
		out[3], out[4] = level(e3+o3, fix+keep+3), level(e3-o3, fix+keep+3)
	}
}

func idct4(f *[64]int32, to []uint8, stride int) {
	const round = 1 << (fix - keep - 1)
	for x := range 4 {
		x0, x1, x2, x3 := four(f[x], f[8+x], f[16+x], f[24+x])
		f[x], f[8+x], f[16+x], f[24+x] = (x0+round)>>(fix-keep), (x1+round)>>(fix-keep), (x2+round)>>(fix-keep), (x3+round)>>(fix-keep)
	}
	for y := range 4 {
		r, out := (*[4]int32)(f[8*y:]), (*[4]uint8)(to[y*stride:])
		x0, x1, x2, x3 := four(r[0], r[1], r[2], r[3])
		out[0], out[1], out[2], out[3] = level(x0, fix+keep+3), level(x1, fix+keep+3), level(x2, fix+keep+3), level(x3, fix+keep+3)
	}
}
