package train

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Times is where a rank's time went, in seconds of the net's clock from the
// beginning of its program's work. Parts do not overlap: what goes on beside
// something else counts where the rank's main activity stood.
//
//   - Compute is forward and backward passes, their turn at the gate of cores
//     included; of a server, the updates it made.
//   - Encode is making payloads, Decode making something of those that came; of
//     a server, adding gradients up. On the virtual clock they are what keys
//     device.codec and constants.apply make of them.
//   - Wire is blocked while bytes moved, Wait is blocked for somebody who had not
//     sent yet; see comm.Traffic.Block for how nets tell the two apart, and what
//     they cannot.
//   - Rest is all else: collectives' sums and copies, updates, snapshots,
//     checkpoints.
//
// Where an exchange goes on beside the backward pass only the time in which the
// rank stood still for it is told, divided as its exchange spent that time.
type Times struct {
	Compute float64 `json:"compute"`
	Encode  float64 `json:"encode"`
	Decode  float64 `json:"decode"`
	Wire    float64 `json:"wire"`
	Wait    float64 `json:"wait"`
	Rest    float64 `json:"rest"`
}

// Busy is all but the rest.
func (t Times) Busy() float64 { return t.Compute + t.Encode + t.Decode + t.Wire + t.Wait }

// timer takes a rank's times. Encodings and decodings are timed by a pair of
// looks at the clock each, or priced on a virtual one.
type timer struct {
	h              comm.Host
	beside         bool         // the rank's exchanges are activities of their own
	encode, decode atomic.Int64 // so far, by all activities
	base           reading
	spent          reading // at: computing. The others only if beside
}

// reading is what had been spent at an instant.
type reading struct{ at, encode, decode, wire, wait time.Duration }

// begin starts the clock of a rank whose exchanges may be activities beside the
// one that computes.
func (t *timer) begin(h comm.Host, beside bool) {
	t.h, t.beside = h, beside
	t.base = t.read()
}

func (t *timer) read() reading {
	wire, wait := t.h.Traffic().Blocked()
	return reading{t.h.Now(), time.Duration(t.encode.Load()), time.Duration(t.decode.Load()), wire, wait}
}

func (r reading) since(o reading) reading {
	return reading{r.at - o.at, r.encode - o.encode, r.decode - o.decode, r.wire - o.wire, r.wait - o.wait}
}

// start looks at a real clock. On a virtual one work that is done beside it must
// not look, and takes no time.
func (t *timer) start() time.Duration {
	if t.h == nil || t.h.Virtual() {
		return 0
	}
	return t.h.Now()
}

// encoded and decoded book what was begun at an instant.
func (t *timer) encoded(began time.Duration) { t.book(&t.encode, began) }
func (t *timer) decoded(began time.Duration) { t.book(&t.decode, began) }

// updated books an update that a server began to make at an instant.
func (t *timer) updated(began time.Duration) {
	if t.h != nil && !t.h.Virtual() {
		t.spent.at += t.h.Now() - began
	}
}

func (t *timer) book(part *atomic.Int64, began time.Duration) {
	if t.h != nil && !t.h.Virtual() {
		part.Add(int64(t.h.Now() - began))
	}
}

// price books what the virtual clock was told an encoding takes.
func (t *timer) price(d time.Duration) {
	if t.h.Virtual() {
		t.encode.Add(int64(d))
	}
}

// encoding lets d pass on a virtual clock, for encoding.
func (t *timer) encoding(ctx context.Context, d time.Duration) error {
	if d == 0 || !t.h.Virtual() {
		return nil
	}
	t.encode.Add(int64(d))
	return t.h.Sleep(ctx, d)
}

// decoding lets d pass on a virtual clock, for decoding.
func (t *timer) decoding(ctx context.Context, d time.Duration) error {
	if d == 0 || !t.h.Virtual() {
		return nil
	}
	t.decode.Add(int64(d))
	return t.h.Sleep(ctx, d)
}

// taking lets d pass on a virtual clock, in which the main activity decodes.
func (t *timer) taking(ctx context.Context, d time.Duration) error {
	if !t.beside || d == 0 || !t.h.Virtual() {
		return t.decoding(ctx, d)
	}
	t.spent.decode += d
	return t.h.Sleep(ctx, d)
}

// computed books the time since r as computing, but for what was something else.
func (t *timer) computed(r reading) {
	d := t.read().since(r)
	other := d.encode
	if !t.beside {
		other += d.decode + d.wire + d.wait
	}
	t.spent.at += max(0, d.at-other)
}

// uncomputed takes d off the time that was booked as computing.
func (t *timer) uncomputed(d time.Duration) { t.spent.at -= d }

// taken books a decoding that the main activity began at an instant, of a rank
// that exchanges beside.
func (t *timer) taken(began time.Duration) {
	if !t.h.Virtual() {
		t.spent.decode += t.h.Now() - began
	}
}

// within books a decoding that the main activity began at an instant, in a time
// that will be told to computed.
func (t *timer) within(began time.Duration) {
	if !t.beside {
		t.decoded(began)
	} else if !t.h.Virtual() {
		d := t.h.Now() - began
		t.spent.decode, t.spent.at = t.spent.decode+d, t.spent.at-d
	}
}

// stood books the time since r, in which the main activity waited for the others
// of its rank, as they spent it. A block is counted when it ends, so what they
// counted may have begun before, and is then scaled to fit. It returns that time.
func (t *timer) stood(r reading) time.Duration {
	d := t.read().since(r)
	share := 1.0
	if sum := d.decode + d.wire + d.wait; sum > d.at {
		share = float64(d.at) / float64(sum)
	}
	t.spent.decode += time.Duration(share * float64(d.decode))
	t.spent.wire += time.Duration(share * float64(d.wire))
	t.spent.wait += time.Duration(share * float64(d.wait))
	return d.at
}

// times tells all up to now.
func (t *timer) times() Times {
	d := t.read().since(t.base)
	parts := reading{t.spent.at, d.encode, d.decode, d.wire, d.wait}
	if t.beside {
		parts.decode, parts.wire, parts.wait = t.spent.decode, t.spent.wire, t.spent.wait
	}
	x := Times{Compute: parts.at.Seconds(), Encode: parts.encode.Seconds(), Decode: parts.decode.Seconds(), Wire: parts.wire.Seconds(), Wait: parts.wait.Seconds()}
	x.Rest = max(0, d.at-parts.at-parts.encode-parts.decode-parts.wire-parts.wait).Seconds()
	return x
}
