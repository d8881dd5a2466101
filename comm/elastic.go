package comm

// Elastic is a host whose rank can leave one epoch of membership in the midst of what
// it does and enter the next. Frames carry the epoch they belong to in their header; 0 is
// none, and passes always.
type Elastic interface {
	Host
	// Enter lets the rank's inbox refuse frames of epochs before this one: those that
	// are there, and those that come later. No activity may wait for one then.
	Enter(epoch uint32)
	// Rouse lets every wait of the rank whose context has ended return its cause. On a
	// real clock waits see that by themselves.
	Rouse()
}

// Before says whether a frame is of an epoch before the given one.
func (h *Header) Before(epoch uint32) bool { return h.Epoch != 0 && h.Epoch < epoch }
