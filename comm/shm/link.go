package shm

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gradlab/gradlab/internal/spin"
)

// Offer is what another process needs to find memory that this one has made. It
// is good for processes of the same user that see the same /proc.
type Offer struct {
	PID    int    `json:"pid"`
	Memory int    `json:"memory"` // descriptors of the process
	Bells  [4]int `json:"bells"`
	Size   int    `json:"size"`  // of the ring in each direction
	Nonce  []byte `json:"nonce"` // what the memory begins with
}

// Link is one side of the memory.
type Link struct {
	In  Reader
	Out Writer

	mem    []byte
	fd     int // of the memory, −1 when nobody needs it any more
	closed *atomic.Bool
}

// The memory: nonce of the maker, answer of the other side, the control blocks
// of both directions, and on pages of their own the data of both.
const (
	nonceSize = 32
	atNonce   = 0
	atAnswer  = 64
	atControl = 1024
	atData    = 4096
)

// MinSize and MaxSize bound the ring of a direction, which must be a multiple of
// 4096 bytes.
const (
	MinSize = 4 << 10
	MaxSize = 64 << 20
)

func checkSize(size int) error {
	if size < MinSize || size > MaxSize || size%4096 != 0 {
		return fmt.Errorf("a ring of %d bytes, want a multiple of 4096 from %d to %d", size, MinSize, MaxSize)
	}
	return nil
}

// lay gives both directions their places: this side writes to direction out.
func (l *Link) lay(size, out int, data, room *bell, come, gone *ear) {
	l.closed = new(atomic.Bool)
	ring := func(d int, b *bell, e *ear) ring {
		ctl := l.mem[atControl+d*control:][:control:control]
		return newRing(ctl, l.mem[atData+d*size:][:size:size], b, e, l.closed)
	}
	l.Out.ring = ring(out, data, gone)
	l.In.ring = ring(1-out, room, come)
	l.In.eager = spin.New(yield)
	l.In.eager.Bare = spin.Bare
}

// Crowded says that more processes share this host's memory than it has cores:
// waits go to sleep early. To be called before the link is used.
func (l *Link) Crowded() {
	l.In.spin.Patience, l.Out.spin.Patience = spin.Crowded, spin.Crowded
	l.In.eager.Bare, l.In.eager.Patience = 0, spin.Crowded
}

func newNonce() []byte {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // never fails
	return b
}

// answerTo is what the side that opens an offer writes, to show that both look
// at the same memory.
func answerTo(nonce []byte) []byte {
	a := make([]byte, len(nonce))
	for i := 0; i+8 <= len(a); i += 8 {
		binary.LittleEndian.PutUint64(a[i:], ^binary.LittleEndian.Uint64(nonce[i:]))
	}
	return a
}

// Answered says whether the other side has opened the very memory that was
// offered. Only the maker may ask, after the other side said that it has.
func (l *Link) Answered() error {
	want := answerTo(l.mem[atNonce : atNonce+nonceSize])
	if subtle.ConstantTimeCompare(l.mem[atAnswer:atAnswer+nonceSize], want) != 1 {
		return errors.New("the other side does not see the memory that was offered")
	}
	return nil
}
