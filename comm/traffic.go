package comm

import "sync/atomic"

// Traffic counts a rank's frames and billed bytes by kind. Frames to the own
// rank are not counted. Safe for concurrent use.
type Traffic struct {
	sentFrames, recvFrames, sentBytes, recvBytes [NumKinds]atomic.Uint64
	sentBody                                     [NumKinds]atomic.Uint64
	wireSent, wireRecv                           atomic.Uint64
	sharedSent, sharedRecv                       atomic.Uint64
	below                                        *Traffic // nil: none
}

// TrafficOver is a Traffic that counts frames by itself and takes what sockets and
// shared memory carried from the one below.
func TrafficOver(below *Traffic) *Traffic { return &Traffic{below: below} }

// Counted is a snapshot of a Traffic. Bytes are billed ones; SentBody is the
// length of the bodies, those of unbilled kinds too. Wire counts what sockets
// carried in all (headers, HTTP/2, control included), Shared what went through
// memory that processes share (headers included); both are 0 where there is no
// such thing.
type Counted struct {
	SentFrames [NumKinds]uint64 `json:"sent_frames"`
	RecvFrames [NumKinds]uint64 `json:"recv_frames"`
	SentBytes  [NumKinds]uint64 `json:"sent_bytes"`
	RecvBytes  [NumKinds]uint64 `json:"recv_bytes"`
	SentBody   [NumKinds]uint64 `json:"sent_body"`
	WireSent   uint64           `json:"wire_sent"`
	WireRecv   uint64           `json:"wire_recv"`
	SharedSent uint64           `json:"shared_sent,omitempty"`
	SharedRecv uint64           `json:"shared_recv,omitempty"`
}

// Sent and Recv count a frame.
func (t *Traffic) Sent(f Frame) { t.SentBody(f, len(f.Body)) }
func (t *Traffic) Recv(f Frame) {
	if k := f.Header.Kind; k < numKinds {
		t.recvFrames[k].Add(1)
		t.recvBytes[k].Add(uint64(f.Billed))
	}
}

// SentBody counts a frame whose body of size bytes went without a buffer.
func (t *Traffic) SentBody(f Frame, size int) {
	if k := f.Header.Kind; k < numKinds {
		t.sentFrames[k].Add(1)
		t.sentBytes[k].Add(uint64(f.Billed))
		t.sentBody[k].Add(uint64(size))
	}
}

// Wire counts bytes that crossed a socket.
func (t *Traffic) Wire(sent, recv int) {
	t.wireSent.Add(uint64(sent))
	t.wireRecv.Add(uint64(recv))
}

// Shared counts bytes that went through shared memory.
func (t *Traffic) Shared(sent, recv int) {
	t.sharedSent.Add(uint64(sent))
	t.sharedRecv.Add(uint64(recv))
}

// Count returns the counts so far.
func (t *Traffic) Count() Counted {
	var c Counted
	for k := range c.SentBytes {
		c.SentFrames[k], c.RecvFrames[k] = t.sentFrames[k].Load(), t.recvFrames[k].Load()
		c.SentBody[k] = t.sentBody[k].Load()
		c.SentBytes[k], c.RecvBytes[k] = t.sentBytes[k].Load(), t.recvBytes[k].Load()
	}
	for t.below != nil {
		t = t.below
	}
	c.WireSent, c.WireRecv = t.wireSent.Load(), t.wireRecv.Load()
	c.SharedSent, c.SharedRecv = t.sharedSent.Load(), t.sharedRecv.Load()
	return c
}

// Add accumulates o.
func (c *Counted) Add(o Counted) {
	for k := range c.SentBytes {
		c.SentFrames[k] += o.SentFrames[k]
		c.RecvFrames[k] += o.RecvFrames[k]
		c.SentBytes[k] += o.SentBytes[k]
		c.RecvBytes[k] += o.RecvBytes[k]
		c.SentBody[k] += o.SentBody[k]
	}
	c.WireSent += o.WireSent
	c.WireRecv += o.WireRecv
	c.SharedSent += o.SharedSent
	c.SharedRecv += o.SharedRecv
}
