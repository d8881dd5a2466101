package bits

import "encoding/binary"

// AppendUvarint appends v in base 128, low digits first (LEB128).
func AppendUvarint(dst []byte, v uint32) []byte { return binary.AppendUvarint(dst, uint64(v)) }

// Uvarint reads a varint and its length from p. The length is 0 when p is cut
// short, the value exceeds 32 bits, or a shorter encoding exists.
func Uvarint(p []byte) (v uint32, n int) {
	if len(p) > 0 && p[0] < 0x80 {
		return uint32(p[0]), 1
	}
	x, n := binary.Uvarint(p)
	if n <= 0 || x > 1<<32-1 || p[n-1] == 0 {
		return 0, 0
	}
	return uint32(x), n
}

// UvarintMaxLen bounds the bytes of k varints whose values sum to at most sum.
func UvarintMaxLen(k, sum int) int {
	n := k
	for s := 7; s <= 28; s += 7 {
		n += min(k, sum>>s)
	}
	return n
}
