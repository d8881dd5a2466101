package record

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Timer takes a rank's times. Encodings and decodings are timed by a pair of
// looks at the clock each, or priced on a virtual one.
type Timer struct {
	h              comm.Host
	Beside         bool         // the rank's exchanges are activities of their own
	encode, decode atomic.Int64 // so far, by all activities
	base           Reading
	spent          Reading // at: computing. The others only if beside
}

// Reading is what had been spent at an instant.
type Reading struct{ at, encode, decode, wire, wait time.Duration }

// Begin starts the clock of a rank whose exchanges may be activities beside the
// one that computes.
func (t *Timer) Begin(h comm.Host, beside bool) {
	t.h, t.Beside = h, beside
	t.base = t.Read()
}

// Read is what has been spent by now.
func (t *Timer) Read() Reading {
	wire, wait := t.h.Traffic().Blocked()
	return Reading{t.h.Now(), time.Duration(t.encode.Load()), time.Duration(t.decode.Load()), wire, wait}
}

func (r Reading) since(o Reading) Reading {
	return Reading{r.at - o.at, r.encode - o.encode, r.decode - o.decode, r.wire - o.wire, r.wait - o.wait}
}

// Start looks at a real clock. On a virtual one work that is done beside it must
// not look, and takes no time.
func (t *Timer) Start() time.Duration {
	if t.h == nil || t.h.Virtual() {
		return 0
	}
	return t.h.Now()
}

// Encoded books the encoding that was begun at an instant.
func (t *Timer) Encoded(began time.Duration) { t.book(&t.encode, began) }

// Decoded books the decoding that was begun at an instant.
func (t *Timer) Decoded(began time.Duration) { t.book(&t.decode, began) }

// Updated books an update that a server began to make at an instant.
func (t *Timer) Updated(began time.Duration) {
	if t.h != nil && !t.h.Virtual() {
		t.spent.at += t.h.Now() - began
	}
}

func (t *Timer) book(part *atomic.Int64, began time.Duration) {
	if t.h != nil && !t.h.Virtual() {
		part.Add(int64(t.h.Now() - began))
	}
}

// Price books what the virtual clock was told an encoding takes.
func (t *Timer) Price(d time.Duration) {
	if t.h.Virtual() {
		t.encode.Add(int64(d))
	}
}

// Encoding lets d pass on a virtual clock, for encoding.
func (t *Timer) Encoding(ctx context.Context, d time.Duration) error {
	if d == 0 || !t.h.Virtual() {
		return nil
	}
	t.encode.Add(int64(d))
	return t.h.Sleep(ctx, d)
}

// Decoding lets d pass on a virtual clock, for decoding.
func (t *Timer) Decoding(ctx context.Context, d time.Duration) error {
	if d == 0 || !t.h.Virtual() {
		return nil
	}
	t.decode.Add(int64(d))
	return t.h.Sleep(ctx, d)
}

// Taking lets d pass on a virtual clock, in which the main activity decodes.
func (t *Timer) Taking(ctx context.Context, d time.Duration) error {
	if !t.Beside || d == 0 || !t.h.Virtual() {
		return t.Decoding(ctx, d)
	}
	t.spent.decode += d
	return t.h.Sleep(ctx, d)
}

// Computed books the time since r as computing, but for what was something else.
func (t *Timer) Computed(r Reading) {
	d := t.Read().since(r)
	other := d.encode
	if !t.Beside {
		other += d.decode + d.wire + d.wait
	}
	t.spent.at += max(0, d.at-other)
}

// Uncomputed takes d off the time that was booked as computing.
func (t *Timer) Uncomputed(d time.Duration) { t.spent.at -= d }

// Taken books a decoding that the main activity began at an instant, of a rank
// that exchanges beside.
func (t *Timer) Taken(began time.Duration) {
	if !t.h.Virtual() {
		t.spent.decode += t.h.Now() - began
	}
}

// Within books a decoding that the main activity began at an instant, in a time
// that will be given to Computed.
func (t *Timer) Within(began time.Duration) {
	if !t.Beside {
		t.Decoded(began)
	} else if !t.h.Virtual() {
		d := t.h.Now() - began
		t.spent.decode, t.spent.at = t.spent.decode+d, t.spent.at-d
	}
}

// Stood books the time since r, in which the main activity waited for the others
// of its rank, as they spent it. A block is counted when it ends, so what they
// counted may have begun before, and is then scaled to fit. It returns that time.
func (t *Timer) Stood(r Reading) time.Duration {
	d := t.Read().since(r)
	share := 1.0
	if sum := d.decode + d.wire + d.wait; sum > d.at {
		share = float64(d.at) / float64(sum)
	}
	t.spent.decode += time.Duration(share * float64(d.decode))
	t.spent.wire += time.Duration(share * float64(d.wire))
	t.spent.wait += time.Duration(share * float64(d.wait))
	return d.at
}

// Times tells all up to now.
func (t *Timer) Times() Times {
	d := t.Read().since(t.base)
	parts := Reading{t.spent.at, d.encode, d.decode, d.wire, d.wait}
	if t.Beside {
		parts.decode, parts.wire, parts.wait = t.spent.decode, t.spent.wire, t.spent.wait
	}
	x := Times{Compute: parts.at.Seconds(), Encode: parts.encode.Seconds(), Decode: parts.decode.Seconds(), Wire: parts.wire.Seconds(), Wait: parts.wait.Seconds()}
	x.Rest = max(0, d.at-parts.at-parts.encode-parts.decode-parts.wire-parts.wait).Seconds()
	return x
}
