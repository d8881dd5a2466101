package sim

import (
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Probe hears what happens on a virtual cluster. It is called by the event loop
// alone, spans in the order in which they end and frames in the order in which
// they leave, and must not hold the loop up.
type Probe interface {
	Span(Span)
	Frame(Passage)
}

// Doing is what an activity of a rank is busy with.
type Doing uint8

// What an activity can be doing.
const (
	Computing Doing = iota // a Work, up to one of its marks
	Sleeping
	Waiting // for a frame
)

func (d Doing) String() string { return [...]string{"compute", "sleep", "wait"}[d] }

// Span is a stretch of an activity's time; From < To.
type Span struct {
	Rank     int
	Activity string
	Doing    Doing
	From, To time.Duration
	Mark     int      // Computing: the mark that it leads to
	Peer     int      // Waiting: for a frame of this rank, or comm.AnyRank
	Tag      comm.Tag // Waiting: with this tag, or comm.AnyTag
}

// Passage is the way of a frame from one rank to another. It is Sent by its
// program, Began to move when all before it to the same rank had left, Left its
// NIC with its last byte, and Arrived.
type Passage struct {
	Header                     comm.Header
	Billed                     int
	Sent, Began, Left, Arrived time.Duration
}

// Link is something of the network that frames share, in one direction, and how
// much of it was used.
type Link struct {
	Kind     string        `json:"kind"` // nic, rack, memory, bridge
	Index    int           `json:"index"`
	Out      bool          `json:"out"`
	Capacity float64       `json:"capacity"` // bytes a second; 0: unlimited
	Bytes    uint64        `json:"bytes"`    // billed
	Busy     time.Duration `json:"busy"`     // with at least one frame under way
}

// span tells the probe what the current activity did since from.
func (h *host) span(doing Doing, from time.Duration, mark int) {
	l := h.loop
	if l.probe == nil || l.now <= from {
		return
	}
	t := l.cur
	s := Span{Rank: h.rank, Activity: t.name, Doing: doing, From: from, To: l.now, Mark: mark}
	if doing == Waiting {
		s.Peer, s.Tag = t.from, t.tag
	}
	l.probe.Span(s)
}
