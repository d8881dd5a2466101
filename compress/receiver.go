package compress

import (
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
)

// NewReceiver makes the receiving end of f on block b, for the sender that
// b.Peer or the frame names, or nil if f's payloads are decoded by Codec.AddTo.
// A receiver whose state must survive a restart is Stateful.
func NewReceiver(f Family, b Block) (Receiver, error) {
	for {
		c, ok := f.(Chooser)
		if !ok {
			break
		}
		f = c.Choose(b)
	}
	if r, ok := f.(ReceiverFamily); ok {
		return r.NewReceiver(b)
	}
	return nil, received(f)
}

// received refuses a wrapper, of somebody else's, that has no receiving end around a
// codec that needs one. gradlab's own refuse it by noReceiver.
func received(f Family) error {
	for _, in := range Inside(f) {
		if KeepsReceiver(in) {
			return noReceiver(Spec(f), in)
		}
	}
	return nil
}

// KeepsReceiver reports whether f keeps state at the receiving end, for some
// block at least.
func KeepsReceiver(f Family) bool {
	if _, ok := f.(ReceiverFamily); ok {
		return true
	}
	return slices.ContainsFunc(Inside(f), KeepsReceiver)
}

// noReceiver refuses, inside a wrapper that decodes payloads itself, a codec
// whose payloads mean nothing without a receiver.
func noReceiver(wrapper string, in Family) error {
	if KeepsReceiver(in) {
		return fmt.Errorf("%s keeps state at the receiver and cannot stand inside %s: put %s inside it", Spec(in), wrapper, wrapper)
	}
	return nil
}

// receiverExchange gathers payloads and has a receiver for every rank: the road
// of codecs with receivers that know no cheaper one.
type receiverExchange struct {
	c         Codec
	rank      int
	receivers []Receiver
	payload   []byte
	own, sum  []float32
	tmp       []float32
	step      int
}

func newReceiverExchange(f Family, rf ReceiverFamily, b Block) (Exchange, error) {
	c, err := f.New(b)
	if err != nil {
		return nil, err
	}
	x := &receiverExchange{c: c, rank: b.Rank}
	far := b
	far.Rank = -1
	for range b.World {
		r, err := rf.NewReceiver(far)
		if err != nil {
			return nil, err
		}
		x.receivers = append(x.receivers, r)
	}
	return x, nil
}

func (x *receiverExchange) Begin(g []float32, s Step) (Op, error) {
	var err error
	if x.payload, err = x.c.Append(x.payload[:0], g, s); err != nil {
		return Op{}, err
	}
	x.step, x.own, x.sum, x.tmp = s.N, resize(x.own, len(g)), resize(x.sum, len(g)), resize(x.tmp, len(g))
	return Op{Kind: OpGather, Bytes: x.payload}, nil
}

func (x *receiverExchange) Next(done Op) (Op, error) {
	if len(done.Parts) != len(x.receivers) {
		return Op{}, Corruptf("%d parts, want %d", len(done.Parts), len(x.receivers))
	}
	clear(x.sum)
	for rank, part := range done.Parts {
		clear(x.tmp)
		if err := x.receivers[rank].Receive(x.tmp, 1, part, From{Rank: rank, Step: x.step}); err != nil {
			return Op{}, fmt.Errorf("payload of rank %d: %w", rank, err)
		}
		f32.Add(x.sum, x.tmp) // on all ranks alike
		if rank == x.rank {
			copy(x.own, x.tmp)
		}
	}
	return Op{}, nil
}

func (x *receiverExchange) Output(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.sum)
	return nil
}

func (x *receiverExchange) Credited(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.own)
	return nil
}

// AppendBinary appends the states of the sender and of all receivers.
func (x *receiverExchange) AppendBinary(b []byte) ([]byte, error) { return appendStates(b, x.ends()) }

// UnmarshalBinary restores them.
func (x *receiverExchange) UnmarshalBinary(b []byte) error { return restoreStates(b, x.ends()) }

func (x *receiverExchange) ends() []any {
	out := []any{x.c}
	for _, r := range x.receivers {
		out = append(out, r)
	}
	return out
}
