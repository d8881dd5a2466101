package comm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Traffic counts a rank's frames and billed bytes by kind and by peer, and the
// time its activities were blocked. Frames to the own rank are not counted. Safe
// for concurrent use.
type Traffic struct {
	sentFrames, recvFrames, sentBytes, recvBytes [NumKinds]atomic.Uint64
	sentBody                                     [NumKinds]atomic.Uint64
	wireSent, wireRecv                           atomic.Uint64
	sharedSent, sharedRecv                       atomic.Uint64
	raw, bf16                                    atomic.Uint64
	blockedWire, blockedWait                     atomic.Int64
	below                                        *Traffic // nil: none

	growing sync.Mutex
	peers   atomic.Pointer[[]*peerTraffic] // by rank, as far as any was met
}

// peerTraffic is what crossed between a rank and another.
type peerTraffic struct{ sent, recv [NumKinds]atomic.Uint64 }

// PeerBytes are the billed bytes that a rank sent to another and received from
// it, by kind.
type PeerBytes struct {
	Rank      int              `json:"rank"`
	SentBytes [NumKinds]uint64 `json:"sent_bytes"`
	RecvBytes [NumKinds]uint64 `json:"recv_bytes"`
}

// TrafficOver is a Traffic that counts frames by itself and takes what sockets and
// shared memory carried, and the bodies in it, from the one below.
func TrafficOver(below *Traffic) *Traffic { return &Traffic{below: below} }

// Counted is a snapshot of a Traffic. Bytes are billed ones; SentBody is the
// length of the bodies, or what they are billed where they are left out, those of
// unbilled kinds too, but without those that a net of processes hands over within one. Wire counts what sockets carried in all
// (headers, HTTP/2, control included), Shared what went through memory that
// processes share (headers included); both are 0 where there is no such thing.
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
	RawBytes   uint64           `json:"raw_bytes,omitempty"`  // see Traffic.Plain
	BF16Bytes  uint64           `json:"bf16_bytes,omitempty"` // likewise
}

// Carried is what the links of a net of processes carried in a run, between all
// of them and each byte once: from the first handshake to the end of the last
// connection. What lies below (headers of TCP and IP, acknowledgements) is no part
// of it.
type Carried struct {
	Wire   uint64           // bytes through sockets
	Shared uint64           // bytes through shared memory
	Body   [NumKinds]uint64 // of both, bodies of frames, by kind
}

// Add accumulates o.
func (c *Carried) Add(o Carried) {
	c.Wire += o.Wire
	c.Shared += o.Shared
	for k := range c.Body {
		c.Body[k] += o.Body[k]
	}
}

// Sent and Recv count a frame.
func (t *Traffic) Sent(f Frame) { t.SentBody(f, max(len(f.Body), f.Billed)) }
func (t *Traffic) Recv(f Frame) {
	if k := f.Header.Kind; k < numKinds {
		t.recvFrames[k].Add(1)
		t.recvBytes[k].Add(uint64(f.Billed))
		if f.Billed > 0 {
			t.peer(int(f.Header.From)).recv[k].Add(uint64(f.Billed))
		}
	}
}

// SentBody counts a frame whose body of size bytes went without a buffer.
func (t *Traffic) SentBody(f Frame, size int) {
	if k := f.Header.Kind; k < numKinds {
		t.sentFrames[k].Add(1)
		t.sentBytes[k].Add(uint64(f.Billed))
		t.sentBody[k].Add(uint64(size))
		if f.Billed > 0 {
			t.peer(int(f.Header.To)).sent[k].Add(uint64(f.Billed))
		}
	}
}

// Plain counts bytes that codecs raw and bf16 would have taken for what went over
// the network. Who knows what is in a frame tells, on one side of it alone.
func (t *Traffic) Plain(raw, bf16 int) {
	t.raw.Add(uint64(raw))
	t.bf16.Add(uint64(bf16))
}

// peer is what is counted of a rank.
func (t *Traffic) peer(rank int) *peerTraffic {
	if rank < 0 { // of no net: nobody asks for it
		return new(peerTraffic)
	}
	if all := t.peers.Load(); all != nil && rank < len(*all) && (*all)[rank] != nil {
		return (*all)[rank]
	}
	t.growing.Lock()
	defer t.growing.Unlock()
	var old []*peerTraffic
	if all := t.peers.Load(); all != nil {
		old = *all
	}
	if rank < len(old) && old[rank] != nil {
		return old[rank]
	}
	grown := make([]*peerTraffic, max(len(old), rank+1))
	copy(grown, old)
	grown[rank] = new(peerTraffic)
	t.peers.Store(&grown)
	return grown[rank]
}

// Peers tells what crossed between this rank and each other one that there was
// billed traffic with, by rank.
func (t *Traffic) Peers() (out []PeerBytes) {
	all := t.peers.Load()
	if all == nil {
		return nil
	}
	for rank, p := range *all {
		if p == nil {
			continue
		}
		b := PeerBytes{Rank: rank}
		for k := range b.SentBytes {
			b.SentBytes[k], b.RecvBytes[k] = p.sent[k].Load(), p.recv[k].Load()
		}
		out = append(out, b)
	}
	return out
}

// Block counts time in which an activity of the rank could not go on: wire,
// because bytes were moving, and wait, because those it waited for had not been
// sent. What Blocks does not name counts nothing, nor does a receive that goes on
// at once.
//
// The virtual network knows when a frame was sent, and so the two apart; until the
// peer has got what this rank had sent it, bytes were moving too. Within a
// process a frame is there as soon as it is sent: all is wait. Between processes
// no clock is shared. There wire is from the instant that the begin of a frame
// was seen until it was whole (if it is long enough to take any time), and what a
// send was held up by those before it; the way of its first bytes, and of the
// request it answers, look like a peer that has not sent, and count as wait, as
// does all that emulated NICs hold back.
func (t *Traffic) Block(wire, wait time.Duration) {
	t.blockedWire.Add(int64(wire))
	t.blockedWait.Add(int64(wait))
}

// Blocks says whether a receive of a rank that ended with a frame counts as
// blocked: not for one from itself, nor for the observer's, nor in an activity
// that is Idle.
func Blocks(ctx context.Context, rank int, h Header) bool {
	return int(h.From) != rank && h.Kind != Report && !isIdle(ctx)
}

type idle struct{}

// Idle marks the receives of an activity that only answers others: the rank is
// not held up while nobody asks, and there is no deadline by which somebody must.
func Idle(ctx context.Context) context.Context { return context.WithValue(ctx, idle{}, true) }

func isIdle(ctx context.Context) bool { return ctx.Value(idle{}) != nil }

// Blocked is what Block has counted.
func (t *Traffic) Blocked() (wire, wait time.Duration) {
	return time.Duration(t.blockedWire.Load()), time.Duration(t.blockedWait.Load())
}

// Wire counts bytes that crossed a socket.
func (t *Traffic) Wire(sent, recv int) {
	t.wireSent.Add(uint64(sent))
	t.wireRecv.Add(uint64(recv))
}

// Shared counts bytes that went through shared memory.
func (t *Traffic) Shared(sent, recv int) {
	if sent > 0 {
		t.sharedSent.Add(uint64(sent))
	}
	if recv > 0 {
		t.sharedRecv.Add(uint64(recv))
	}
}

// Count returns the counts so far.
func (t *Traffic) Count() Counted {
	var c Counted
	for k := range c.SentBytes {
		c.SentFrames[k], c.RecvFrames[k] = t.sentFrames[k].Load(), t.recvFrames[k].Load()
		c.SentBytes[k], c.RecvBytes[k] = t.sentBytes[k].Load(), t.recvBytes[k].Load()
	}
	c.RawBytes, c.BF16Bytes = t.raw.Load(), t.bf16.Load()
	for t.below != nil {
		t = t.below
	}
	for k := range c.SentBody {
		c.SentBody[k] = t.sentBody[k].Load()
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
	c.RawBytes += o.RawBytes
	c.BF16Bytes += o.BF16Bytes
}
