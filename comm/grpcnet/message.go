package grpcnet

import (
	"hash/crc32"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

// The first byte of a message on a link.
const (
	msgFrame  = 'F' // a frame begins: header, as much of the body as fits, checksum at its end
	msgChunk  = 'C' // more of the frame
	msgBeat   = 'H' // the process lives
	msgBye    = 'B' // a rank has finished: u32 rank
	msgAbort  = 'A' // a rank has failed: u32 rank, cause
	msgEnd    = 'E' // all ranks of the process have ended, nothing follows
	msgEnded  = 'K' // the answer to msgEnd
	msgFenced = 'X' // the receiver was silent for too long: u64 nanoseconds
)

// chunk is how much of a body one message carries.
const chunk = 1 << 20

// maxCause bounds the text of a failure that is told to others.
const maxCause = 4 << 10

// writeFrame sends f in as many messages as it takes and releases it. One
// allocation holds all that is not body; gRPC uses a message after SendMsg has
// returned, so nothing is shared between messages.
func writeFrame(s stream, f comm.Frame) error {
	defer f.Release()
	if len(f.Body) <= copyLimit {
		b := make([]byte, 1, 1+headerSize+len(f.Body)+trailerSize)
		b[0] = msgFrame
		return sendBytes(s, appendFrame(b, f))
	}
	head := make([]byte, 1, 1+headerSize+trailerSize)
	head[0] = msgFrame
	head = appendHeader(head, &f.Header, f.Billed, len(f.Body))
	crc := crc32.Checksum(head[1:], castagnoli)
	for rest := f.Body; len(rest) > 0; {
		piece := rest[:min(chunk, len(rest))]
		rest = rest[len(piece):]
		crc = crc32.Update(crc, castagnoli, piece)
		if f.Buffer() != nil {
			f.Buffer().Retain()
		}
		m := make(mem.BufferSlice, 0, 3)
		m = append(m, mem.SliceBuffer(head), lend(piece, f.Buffer()))
		if len(rest) == 0 {
			m = append(m, mem.SliceBuffer(le.AppendUint32(head[len(head):], crc)))
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
		head = append(make([]byte, 0, 1+trailerSize), msgChunk)
	}
	return nil
}

// rankMessage makes a message about one rank.
func rankMessage(kind byte, rank int, text string) []byte {
	if len(text) > maxCause {
		text = text[:maxCause]
	}
	b := le.AppendUint32([]byte{kind}, uint32(rank))
	return append(b, text...)
}
