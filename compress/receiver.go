package compress

import "fmt"

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
	return nil, nil
}

// KeepsReceiver reports whether f keeps state at the receiving end, for some
// block at least.
func KeepsReceiver(f Family) bool {
	if _, ok := f.(ReceiverFamily); ok {
		return true
	}
	if c, ok := f.(Wrapper); ok {
		for _, in := range c.Inner() {
			if KeepsReceiver(in) {
				return true
			}
		}
	}
	return false
}

// noReceiver refuses, inside a wrapper that decodes payloads itself, a codec
// whose payloads mean nothing without a receiver.
func noReceiver(wrapper string, in Family) error {
	if KeepsReceiver(in) {
		return fmt.Errorf("%s keeps state at the receiver and cannot stand inside %s: put %s inside it", Spec(in), wrapper, wrapper)
	}
	return nil
}
