//go:build mpi

package mpinet

import (
	"encoding/binary"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// A head is
//
//	0 kind u8   1 inline u8: the body follows in the head   4 process u32, that sends it
//	8 rank u32  16 body length u64   24 header of a frame, if it is one
//
// in little endian, then the body if it is inline.
const (
	msgFrame   = 'F' // a frame
	msgBye     = 'B' // a rank has finished
	msgAbort   = 'A' // a rank has failed; its body is the cause
	msgEnd     = 'E' // all ranks of the process have ended, nothing follows; its body is what it sent
	msgHello   = 'H' // what the process was started for, to process 0
	msgWelcome = 'W' // from process 0: all have come, and its body is why they do not fit, if so

	headFrame = 24
	headBody  = headFrame + comm.HeaderSize
	// shortMost is the longest body that goes in the head: with it a message is short
	// enough for most libraries to send without asking.
	shortMost = 4096 - headBody - 64
	headMost  = headBody + shortMost
)

var le = binary.LittleEndian

// message is one on its way in or out.
type message struct {
	kind    byte
	process int // that sends it; outward: that it is for
	rank    int
	frame   comm.Frame // of msgFrame
	text    []byte     // the body of any other
	missing int        // pieces that have not come yet
}

func (m *message) body() []byte {
	if m.kind == msgFrame {
		return m.frame.Body
	}
	return m.text
}

// appendHead writes the head of a message from a process; inline says whether the body
// is in it.
func (m *message) appendHead(b []byte, from int) (_ []byte, inline bool) {
	body := m.body()
	inline = len(body) <= shortMost
	b = append(b, m.kind, 0, 0, 0)
	if inline {
		b[1] = 1
	}
	b = le.AppendUint32(b, uint32(from))
	b = le.AppendUint64(b, uint64(m.rank))
	b = le.AppendUint64(b, uint64(len(body)))
	b = comm.AppendHeader(b, &m.frame.Header, m.frame.Billed, len(body))
	if inline {
		b = append(b, body...)
	}
	return b, inline
}

// parseHead reads a head. The message has its body if that was inline.
func parseHead(b []byte) (m *message, inline bool, err error) {
	m = &message{kind: b[0], process: int(le.Uint32(b[4:])), rank: int(le.Uint64(b[8:]))}
	h, billed, size, err := comm.ParseHeader(b[headFrame:headBody], maxBody)
	if err != nil {
		return nil, false, fmt.Errorf("mpinet: from process %d: %w", m.process, err)
	}
	if m.kind == msgFrame {
		m.frame = comm.NewFrame(h, comm.NewBuffer(size))
		m.frame.Billed = billed
	} else {
		m.text = make([]byte, size)
	}
	if inline = b[1] == 1; inline {
		copy(m.body(), b[headBody:headMost])
	}
	return m, inline, nil
}

const maxBody = 1<<62 - 1

// carriedSize is the length of a carried on the wire.
const carriedSize = 8 * (1 + comm.NumKinds)

func appendCarried(b []byte, c comm.Carried) []byte {
	b = le.AppendUint64(b, c.Wire)
	for _, n := range c.Body {
		b = le.AppendUint64(b, n)
	}
	return b
}

func parseCarried(b []byte) (c comm.Carried) {
	if len(b) < carriedSize {
		return c
	}
	c.Wire = le.Uint64(b)
	for k := range c.Body {
		c.Body[k] = le.Uint64(b[8*(1+k):])
	}
	return c
}
