package grpcnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// A frame on the wire: header, body, CRC-32C of both. All fields are little
// endian and at fixed places:
//
//	0 magic 0x67   1 version 1   2 kind       3 code
//	4 flags u16    6 shard u16   8 run u64    16 epoch u32   20 incarnation u32
//	24 from i32    28 to i32     32 tag u32   36 zero u32
//	40 step u64    48 seq u64    56 version u64   64 value f64
//	72 billed u64  80 body length u64
const (
	frameMagic   = 0x67
	frameVersion = 1
	headerSize   = 88
	trailerSize  = 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// appendHeader appends the wire form of a header.
func appendHeader(b []byte, h *comm.Header, billed, body int) []byte {
	b = append(b, frameMagic, frameVersion, byte(h.Kind), h.Code)
	b = le.AppendUint16(b, h.Flags)
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
	return le.AppendUint64(b, uint64(body))
}

// appendFrame appends the whole wire form of f.
func appendFrame(b []byte, f comm.Frame) []byte {
	at := len(b)
	b = appendHeader(b, &f.Header, f.Billed, len(f.Body))
	b = append(b, f.Body...)
	return le.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// parseHeader reads a header whose body may be as long as maxBody.
func parseHeader(b []byte, maxBody int) (h comm.Header, billed, body int, err error) {
	switch {
	case len(b) < headerSize:
		return h, 0, 0, fmt.Errorf("frame header of %d bytes, want %d", len(b), headerSize)
	case b[0] != frameMagic:
		return h, 0, 0, fmt.Errorf("frame starts with %#02x, want %#02x", b[0], frameMagic)
	case b[1] != frameVersion:
		return h, 0, 0, fmt.Errorf("frame version %d, want %d", b[1], frameVersion)
	case int(b[2]) >= comm.NumKinds:
		return h, 0, 0, fmt.Errorf("frame of unknown kind %d", b[2])
	case le.Uint32(b[36:]) != 0:
		return h, 0, 0, errors.New("frame header with bits that mean nothing")
	}
	h = comm.Header{
		Kind: comm.Kind(b[2]), Code: b[3], Flags: le.Uint16(b[4:]), Shard: le.Uint16(b[6:]),
		Run: le.Uint64(b[8:]), Epoch: le.Uint32(b[16:]), Incarnation: le.Uint32(b[20:]),
		From: int32(le.Uint32(b[24:])), To: int32(le.Uint32(b[28:])), Tag: comm.Tag(le.Uint32(b[32:])),
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

// decodeFrame reads a whole frame; its body is a copy.
func decodeFrame(b []byte, maxBody int) (comm.Frame, error) {
	a := assembler{max: min(maxBody, len(b))} // a body cannot be longer than all there is
	c := cursor{s: mem.BufferSlice{mem.SliceBuffer(b)}}
	f, done, err := a.start(&c)
	if err == nil && !done {
		a.drop()
		err = errTruncated
	}
	return f, err
}

var errTruncated = errors.New("frame is cut short")
