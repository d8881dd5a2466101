package comm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// HeaderSize is the length of a header on a wire, in bytes. All fields are little
// endian and at fixed places:
//
//	0 magic 0x67   1 version 2   2 kind       3 code
//	4 flags u16    6 shard u16   8 run u64    16 epoch u32   20 incarnation u32
//	24 from i32    28 to i32     32 tag u32   36 CRC-32C u32
//	40 step u64    48 seq u64    56 version u64   64 value f64
//	72 billed u64  80 body length u64
//
// The checksum is that of the header with zeros in its place: what decides where
// a body goes is checked on every road. Bodies are the business of who carries
// them.
const HeaderSize = 88

const (
	frameMagic   = 0x67
	frameVersion = 2
	headerSum    = 36
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
	noSum      [4]byte // in the place of the checksum, when it is computed
)

// AppendHeader appends the wire form of the header of a frame that is billed at
// billed bytes and has a body of body bytes.
func AppendHeader(b []byte, h *Header, billed, body int) []byte {
	at := len(b)
	b = append(b, frameMagic, frameVersion, byte(h.Kind), h.Code)
	b = le.AppendUint16(b, uint16(h.Flags))
	b = le.AppendUint16(b, h.Shard)
	b = le.AppendUint64(b, h.Run)
	b = le.AppendUint32(b, h.Epoch)
	b = le.AppendUint32(b, h.Incarnation)
	b = le.AppendUint32(b, uint32(h.From))
	b = le.AppendUint32(b, uint32(h.To))
	b = le.AppendUint32(b, uint32(h.Tag))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, h.Step)
	b = le.AppendUint64(b, h.Seq)
	b = le.AppendUint64(b, h.Version)
	b = le.AppendUint64(b, math.Float64bits(h.Value))
	b = le.AppendUint64(b, uint64(billed))
	b = le.AppendUint64(b, uint64(body))
	le.PutUint32(b[at+headerSum:], crc32.Checksum(b[at:], castagnoli))
	return b
}

// sumOf is the checksum a header should have.
func sumOf(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:headerSum])
	sum = crc32.Update(sum, castagnoli, noSum[:])
	return crc32.Update(sum, castagnoli, b[headerSum+4:HeaderSize])
}

// ParseHeader reads what AppendHeader wrote. A body may be as long as maxBody. Any
// bytes may be read: what is no header is an error.
func ParseHeader(b []byte, maxBody int) (h Header, billed, body int, err error) {
	switch {
	case len(b) < HeaderSize:
		return h, 0, 0, fmt.Errorf("frame header of %d bytes, want %d", len(b), HeaderSize)
	case b[0] != frameMagic:
		return h, 0, 0, fmt.Errorf("frame starts with %#02x, want %#02x", b[0], frameMagic)
	case b[1] != frameVersion:
		return h, 0, 0, fmt.Errorf("frame version %d, want %d", b[1], frameVersion)
	case le.Uint32(b[headerSum:]) != sumOf(b):
		return h, 0, 0, fmt.Errorf("frame header with checksum %08x, computed %08x", le.Uint32(b[headerSum:]), sumOf(b))
	case int(b[2]) >= NumKinds:
		return h, 0, 0, fmt.Errorf("frame of unknown kind %d", b[2])
	}
	h = Header{
		Kind: Kind(b[2]), Code: b[3], Flags: Flags(le.Uint16(b[4:])), Shard: le.Uint16(b[6:]),
		Run: le.Uint64(b[8:]), Epoch: le.Uint32(b[16:]), Incarnation: le.Uint32(b[20:]),
		From: int32(le.Uint32(b[24:])), To: int32(le.Uint32(b[28:])), Tag: Tag(le.Uint32(b[32:])),
		Step: le.Uint64(b[40:]), Seq: le.Uint64(b[48:]), Version: le.Uint64(b[56:]),
		Value: math.Float64frombits(le.Uint64(b[64:])),
	}
	bill, size := le.Uint64(b[72:]), le.Uint64(b[80:])
	if size > uint64(maxBody) {
		return h, 0, 0, fmt.Errorf("frame body of %d bytes, at most %d are accepted", size, maxBody)
	}
	if bill > math.MaxInt {
		return h, 0, 0, fmt.Errorf("frame billed at %d bytes", bill)
	}
	return h, int(bill), int(size), nil
}
