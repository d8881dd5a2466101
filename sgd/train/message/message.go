package message

import "github.com/gradlab/gradlab/comm"

// Word is what a message says beside its body. It alone knows where in a header it
// lies: Put writes it there, and the function given to Say reads it back. Words are
// small values without pointers, so that sending one allocates nothing.
type Word interface {
	Put(comm.Header) comm.Header
}

// Nothing is the word of messages that say what they have to say by their channel,
// their flags or their body.
type Nothing struct{}

// Put implements Word.
func (Nothing) Put(h comm.Header) comm.Header { return h }

// ReadNothing reads Nothing, from any header.
func ReadNothing(comm.Header) Nothing { return Nothing{} }

// Flags are bits of a message that collectives OR along their way.
type Flags = comm.Flags

// Origin is where frames come from: of a job, or of a rank of it.
type Origin interface {
	// Stamp is a header with the identity of the run and of the process, and nothing else.
	Stamp() comm.Header
}

// Speaker is a rank that sends and receives messages.
type Speaker interface {
	Origin
	ID() int
	Host() comm.Host
}

// Mail is a message that has come. Whoever has it releases its frame.
type Mail[W Word] struct {
	comm.Frame
	Word  W
	From  int
	Flags Flags
}

// Count is the word of messages that say a number: of steps, or one of them. It is in the Step
// of the header.
type Count struct{ N int }

// Put implements Word.
func (w Count) Put(h comm.Header) comm.Header { h.Step = uint64(w.N); return h }

// ReadCount reads a Count.
func ReadCount(h comm.Header) Count { return Count{int(h.Step)} }
