package grpcnet

import (
	"encoding/binary"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/lane"
)

var le = binary.LittleEndian

// The first byte of a message on a link.
const (
	msgFrame  = lane.Frame // a frame begins: header, as much of the body as fits
	msgChunk  = 'C'        // more of the frame
	msgBeat   = 'H'        // the process lives
	msgBye    = 'B'        // a rank has finished: u32 rank
	msgAbort  = 'A'        // a rank has failed: u32 rank, cause
	msgBereft = 'R'        // likewise, since another process was lost: another try may go well
	msgAgain  = 'M'        // likewise, of the coordinator: all processes meet again
	msgEnd    = 'E'        // all ranks of the process have ended, nothing follows
	msgEnded  = 'K'        // the answer to msgEnd
	msgCount  = 'N'        // what the process's links carried, see count
	msgNoted  = 'O'        // the answer to msgCount
	msgFenced = 'X'        // the receiver was silent for too long: u64 nanoseconds
)

// A message of a frame starts with its kind, how it is checked, and a zero. With
// the five bytes that gRPC puts before it, whole floats lie in HTTP/2's frames of
// 16 KB, as long as flow control does not cut them. If it is checked, the
// CRC-32C of its kind and of all that follows comes next.
const (
	prefixSize = 3
	sumSize    = 4
)

// chunk is how much of a body one message carries.
const chunk = 1 << 20

// maxCause bounds the text of a failure that is told to others.
const maxCause = 4 << 10

// copyLimit is the size up to which bytes are copied: below it gRPC never says
// that a buffer was written out.
const copyLimit = 1 << 10

// parcel is one message of a frame on its way through gRPC, which reads it until
// some time after SendMsg has returned. Its last buffer says when that is: only
// then may the parcel be used again.
type parcel struct {
	space [2 * copyLimit]byte // beyond copyLimit, so that gRPC tells when it was written
	head  []byte              // prefix, header, and a body that is small
	rest  []byte              // a body that is not, as it lies in buf
	buf   *comm.Buffer        // nil if the body belongs to nobody
	pair  [2]mem.Buffer
	all   mem.BufferSlice // of pair
}

var parcels = sync.Pool{New: func() any { return new(parcel) }}

// The two buffers of a parcel, as the pools they go back to.
type (
	parcelHead parcel
	parcelRest parcel
)

// Get is never asked for.
func (*parcelHead) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (*parcelRest) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put says that the head was written out.
func (p *parcelHead) Put(*[]byte) {
	if p.rest == nil {
		parcels.Put((*parcel)(p))
	}
}

// Put says that all was written out.
func (p *parcelRest) Put(*[]byte) {
	if p.buf != nil {
		p.buf.Release()
	}
	p.rest, p.buf = nil, nil
	parcels.Put((*parcel)(p))
}

// pack completes a message with a piece of a body. It takes over a reference to
// buf.
func (p *parcel) pack(piece []byte, buf *comm.Buffer, checked bool) {
	if len(piece) <= copyLimit {
		p.head = append(p.head, piece...)
		if buf != nil {
			buf.Release()
		}
	} else {
		p.rest, p.buf = piece[:len(piece):len(piece)], buf // gRPC decides by capacity
	}
	if checked {
		sum := lane.Sum(lane.Sum(0, p.head[:1]), p.head[prefixSize+sumSize:])
		le.PutUint32(p.head[prefixSize:], lane.Sum(sum, p.rest))
	}
	p.pair[0] = mem.NewBuffer(&p.head, (*parcelHead)(p))
	p.all = p.pair[:1]
	if p.rest != nil {
		p.pair[1] = mem.NewBuffer(&p.rest, (*parcelRest)(p))
		p.all = p.pair[:2]
	}
}

// newParcel begins a message.
func newParcel(kind byte, checked bool) *parcel {
	p := parcels.Get().(*parcel)
	p.head = append(p.space[:0], kind, 0, 0)
	if checked {
		p.head[1] = 1
		p.head = append(p.head, 0, 0, 0, 0)
	}
	return p
}

// writeFrame sends f in as many messages as it takes and releases it.
func writeFrame(s stream, f comm.Frame, checked bool) error {
	defer f.Release()
	p := newParcel(msgFrame, checked)
	p.head = comm.AppendHeader(p.head, &f.Header, f.Billed, len(f.Body))
	for rest := f.Body; ; {
		piece := rest[:min(chunk, len(rest))]
		rest = rest[len(piece):]
		if f.Buffer() != nil {
			f.Buffer().Retain()
		}
		p.pack(piece, f.Buffer(), checked)
		if err := s.SendMsg(p); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		p = newParcel(msgChunk, checked)
	}
}

// rankMessage makes a message about one rank.
func rankMessage(kind byte, rank int, text string) []byte {
	if len(text) > maxCause {
		text = text[:maxCause]
	}
	b := le.AppendUint32([]byte{kind}, uint32(rank))
	return append(b, text...)
}
