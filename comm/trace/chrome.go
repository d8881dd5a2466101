package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// sending is the first lane of frames: one for each destination, behind those of
// the rank's activities.
const sending = 1000

// Chrome writes the trace in Chrome's JSON format: a process is a rank; its
// threads are its activities, with what they compute and whom they wait for, and
// one thread for each rank that it sends to, with the frames while they move.
func (r *Recorder) Chrome(w io.Writer) error {
	c := &chrome{w: bufio.NewWriter(w), lanes: map[lane]int{}}
	c.text(`{"displayTimeUnit":"ms","otherData":{"clock":"virtual","dropped":"`)
	c.int(r.dropped)
	c.text(`"},"traceEvents":[`)
	for rank := range r.ranks() {
		name := "rank " + strconv.Itoa(rank)
		if r.Names != nil {
			name += ": " + r.Names[rank]
		}
		c.meta("process_name", rank, 0, name)
		c.order("process_sort_index", rank, 0, rank)
	}
	for i := range r.spans {
		c.span(&r.spans[i])
	}
	for i := range r.frames {
		c.frame(&r.frames[i])
	}
	c.text("\n]}\n")
	return c.w.Flush()
}

// lane is a thread of a rank: an activity, or the frames to a peer.
type lane struct {
	rank     int
	activity string
	to       int
}

type chrome struct {
	w     *bufio.Writer // keeps the first error
	lanes map[lane]int
	count map[int]int // activities of a rank
	later bool        // something has been written
}

func (c *chrome) text(s string) { _, _ = c.w.WriteString(s) }
func (c *chrome) int(n int)     { _, _ = c.w.Write(strconv.AppendInt(c.w.AvailableBuffer(), int64(n), 10)) }

// micros writes a time in microseconds.
func (c *chrome) micros(d time.Duration) {
	_, _ = c.w.Write(strconv.AppendFloat(c.w.AvailableBuffer(), float64(d)/1e3, 'f', 3, 64))
}

func (c *chrome) next() {
	if c.later {
		c.text(",")
	}
	c.later = true
	c.text("\n")
}

// meta names a rank or a lane.
func (c *chrome) meta(what string, rank, thread int, name string) {
	c.next()
	fmt.Fprintf(c.w, `{"ph":"M","name":%q,"pid":%d,"tid":%d,"args":{"name":%q}}`, what, rank, thread, name)
}

// order says where a rank or a lane stands.
func (c *chrome) order(what string, rank, thread, at int) {
	c.next()
	fmt.Fprintf(c.w, `{"ph":"M","name":%q,"pid":%d,"tid":%d,"args":{"sort_index":%d}}`, what, rank, thread, at)
}

// lane gives a lane's thread, naming it the first time.
func (c *chrome) lane(l lane) int {
	if t, ok := c.lanes[l]; ok {
		return t
	}
	t, name := sending+l.to, fmt.Sprintf("to rank %d", l.to)
	if l.to < 0 {
		if c.count == nil {
			c.count = map[int]int{}
		}
		c.count[l.rank]++
		t, name = c.count[l.rank], l.activity
	}
	c.lanes[l] = t
	c.meta("thread_name", l.rank, t, name)
	c.order("thread_sort_index", l.rank, t, t)
	return t
}

// complete begins an event of some length; the caller adds arguments and braces.
func (c *chrome) complete(name string, rank, thread int, from, to time.Duration) {
	c.next()
	c.text(`{"ph":"X","name":"`)
	c.text(name)
	c.text(`","pid":`)
	c.int(rank)
	c.text(`,"tid":`)
	c.int(thread)
	c.text(`,"ts":`)
	c.micros(from)
	c.text(`,"dur":`)
	c.micros(to - from)
}

func (c *chrome) span(s *sim.Span) {
	thread := c.lane(lane{s.Rank, s.Activity, -1})
	name := s.Doing.String()
	if s.Doing == sim.Waiting {
		name = "wait for any rank"
		if s.Peer == s.Rank {
			name = "wait for itself"
		} else if s.Peer != comm.AnyRank {
			name = "wait for rank " + strconv.Itoa(s.Peer)
		}
	}
	c.complete(name, s.Rank, thread, s.From, s.To)
	switch {
	case s.Doing == sim.Computing:
		c.text(`,"args":{"mark":`)
		c.int(s.Mark)
		c.text(`}`)
	case s.Doing == sim.Waiting && s.Tag != comm.AnyTag:
		c.text(`,"args":{"tag":`)
		c.int(int(s.Tag))
		c.text(`}`)
	}
	c.text(`}`)
}

func (c *chrome) frame(p *sim.Passage) {
	if p.Left == p.Began { // of no bytes
		return
	}
	h := &p.Header
	thread := c.lane(lane{int(h.From), "", int(h.To)})
	c.complete(h.Kind.String(), int(h.From), thread, p.Began, p.Left)
	c.text(`,"args":{"bytes":`)
	c.int(p.Billed)
	c.text(`,"step":`)
	c.int(int(h.Step))
	c.text(`,"tag":`)
	c.int(int(h.Tag))
	c.text(`,"queued_us":`)
	c.micros(p.Began - p.Sent)
	c.text(`,"arrives_us":`)
	c.micros(p.Arrived)
	c.text(`}}`)
}
