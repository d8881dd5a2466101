package codec

import "encoding/binary"

// Codes of 1 to 8 bits in a row, the first in the lowest bits: eight of them fill
// exactly width bytes.

// PackedLen is the length in bytes of n codes of width bits each.
func PackedLen(n, width int) int { return (n*width + 7) / 8 }

// Pack writes codes, each below 1<<width, and zero bits behind the last. It
// panics unless len(dst) == PackedLen(len(codes), width).
func Pack(dst, codes []byte, width int) {
	same("Pack", len(dst), PackedLen(len(codes), width))
	if width == 8 {
		copy(dst, codes)
		return
	}
	// The last eight codes of a kernel are stored as eight bytes.
	n := packAVX2(dst, codes[:min(len(codes), max(0, len(dst)-8)/width*8)], width, &joins[width])
	packGo(dst[n/8*width:], codes[n:], width)
}

func packGo(dst, codes []byte, width int) {
	w := uint(width)
	for ; len(codes) >= 8; codes, dst = codes[8:], dst[width:] {
		c := (*[8]byte)(codes)
		store(dst, width, uint64(c[0])|uint64(c[1])<<w|uint64(c[2])<<(2*w)|uint64(c[3])<<(3*w)|
			uint64(c[4])<<(4*w)|uint64(c[5])<<(5*w)|uint64(c[6])<<(6*w)|uint64(c[7])<<(7*w))
	}
	var v uint64
	for i, c := range codes {
		v |= uint64(c) << (uint(i) * w)
	}
	store(dst, len(dst), v)
}

// store writes the n low bytes of v, and zeros behind them if there is room for
// eight bytes: v has no others.
func store(dst []byte, n int, v uint64) {
	if len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, v)
		return
	}
	for i := range n {
		dst[i] = byte(v >> (8 * uint(i)))
	}
}

// Unpack reads the codes in p. It panics unless len(p) == PackedLen(len(codes),
// width). What the last byte has behind the last code does not matter.
func Unpack(codes, p []byte, width int) {
	same("Unpack", len(p), PackedLen(len(codes), width))
	if width == 8 {
		copy(codes, p)
		return
	}
	n := unpackAVX2(codes[:unpackable(len(codes), p, width)], p, width, &splits[width])
	unpackGo(codes[n:], p[n/8*width:], width)
}

// unpackable is how many of n codes a kernel may take: it loads the last 16 as 16
// bytes.
func unpackable(n int, p []byte, width int) int { return min(n, max(0, len(p)-16)/width*8) }

func unpackGo(codes, p []byte, width int) {
	w, mask := uint(width), byte(1<<uint(width)-1)
	for ; len(codes) >= 8; codes, p = codes[8:], p[width:] {
		v, c := load(p, width), (*[8]byte)(codes)
		c[0] = byte(v) & mask
		c[1] = byte(v>>w) & mask
		c[2] = byte(v>>(2*w)) & mask
		c[3] = byte(v>>(3*w)) & mask
		c[4] = byte(v>>(4*w)) & mask
		c[5] = byte(v>>(5*w)) & mask
		c[6] = byte(v>>(6*w)) & mask
		c[7] = byte(v>>(7*w)) & mask
	}
	v := load(p, len(p))
	for i := range codes {
		codes[i] = byte(v) & mask
		v >>= w
	}
}

// load reads n < 9 bytes, or eight if there are as many.
func load(p []byte, n int) uint64 {
	if len(p) >= 8 {
		return binary.LittleEndian.Uint64(p)
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v
}

// MaxCode is the largest of n codes in p, 0 for none. It panics unless len(p) ==
// PackedLen(n, width).
func MaxCode(p []byte, n, width int) byte {
	same("MaxCode", len(p), PackedLen(n, width))
	if width == 8 {
		return MaxByte(p)
	}
	k, most := maxCodeAVX2(unpackable(n, p, width), p, width, &splits[width])
	return max(most, maxCodeGo(p[k/8*width:], n-k, width))
}

func maxCodeGo(p []byte, n, width int) (m byte) {
	var codes [256]byte
	for n > 0 {
		part := codes[:min(n, len(codes))]
		unpackGo(part, p[:PackedLen(len(part), width)], width)
		m = max(m, maxByteGo(part))
		n, p = n-len(part), p[PackedLen(len(part), width):]
	}
	return m
}

// MaxByte is the largest byte, 0 for none.
func MaxByte(b []byte) byte {
	n, most := maxByteAVX2(b)
	return max(most, maxByteGo(b[n:]))
}

func maxByteGo(b []byte) (m byte) {
	var n byte
	for ; len(b) >= 4; b = b[4:] {
		p := (*[4]byte)(b)
		m, n = max(m, p[0], p[1]), max(n, p[2], p[3])
	}
	for _, v := range b {
		m = max(m, v)
	}
	return max(m, n)
}

// joins holds what the assembly packs by, for each width up to 7: 32 bytes that
// weigh neighbouring codes by 1 and 2ʷ; 16 words that weigh pairs by 1 and 4ʷ;
// what to shift the fours by, so that those with even numbers end where the next
// begins; and what to shift both down by.
var joins = func() (t [8][128]byte) {
	for width := 1; width < 8; width++ {
		by := &t[width]
		gap := uint32(32 - 4*width)
		for i := range 16 {
			by[2*i], by[2*i+1] = 1, 1<<uint(width)
			binary.LittleEndian.PutUint16(by[32+2*i:], 1<<uint(i%2*2*width))
		}
		for i := range 4 {
			binary.LittleEndian.PutUint32(by[64+8*i:], gap)
			binary.LittleEndian.PutUint64(by[96+8*i:], uint64(gap))
		}
	}
	return
}()

// splits holds what the assembly unpacks by: for each of 16 codes the two bytes
// that hold it, from the first of its half; factors that shift a code to the top
// of these; and how far it is from there to the bottom.
var splits = func() (t [8][72]byte) {
	for width := 1; width < 8; width++ {
		by := &t[width]
		for i := range 16 {
			first, off := i/8*width+i%8*width/8, i%8*width%8
			by[2*i], by[2*i+1] = byte(first), byte(first+1)
			binary.LittleEndian.PutUint16(by[32+2*i:], 1<<uint(16-width-off))
		}
		by[64] = byte(16 - width)
	}
	return
}()
