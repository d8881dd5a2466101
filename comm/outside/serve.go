package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Accept takes the ranks of a world at a listener, one connection each, a line of
// JSON an event. It waits until all are there, or ctx ends. What is read is written
// to record too, unless that is nil. Closing what it returns ends the connections.
func Accept(ctx context.Context, l net.Listener, record io.Writer) ([]Source, io.Closer, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	log := &recorder{to: record}
	all := &connections{done: make(chan struct{})}
	var sources []Source
	for n := 0; sources == nil || n < len(sources); {
		c, err := l.Accept()
		if err != nil {
			all.Close()
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, nil, fmt.Errorf("outside: %d of %d ranks have called: %w", n, len(sources), err)
		}
		s := &connection{c: c, lines: bufio.NewScanner(c), log: log, of: all, group: groupOf(c), events: make(chan read, maxAhead)}
		s.lines.Buffer(nil, maxLine)
		all.add(s)
		e, err := s.scan()
		switch {
		case err != nil:
		case e.Do != Hello:
			err = fmt.Errorf("outside: a rank begins with %q, not with %q", e.Do, Hello)
		case sources == nil:
			sources = make([]Source, e.World)
		case e.World != len(sources):
			err = fmt.Errorf("outside: rank %d is of a world of %d, others are of one of %d", e.Rank, e.World, len(sources))
		}
		if err == nil && sources[e.Rank] != nil {
			err = fmt.Errorf("outside: two processes are rank %d", e.Rank)
		}
		if err != nil {
			all.Close()
			return nil, nil, err
		}
		s.rank, s.world, sources[e.Rank] = e.Rank, e.World, s
		n++
	}
	for _, s := range all.all {
		all.readers.Go(s.read)
	}
	return sources, all, nil
}

const (
	maxLine  = 64 << 10 // bounds an event, of which a group is the longest part
	maxAhead = 1 << 12  // events that are read of a rank before the cluster plays them
)

// quiet is how long all processes compute next to nothing, a hundredth of it each, before a
// rank whose next event is due counts as stuck. Idle threads of PyTorch take a quarter of that.
var quiet = time.Minute

// connections are the ranks of a world.
type connections struct {
	all     []*connection
	readers sync.WaitGroup
	once    sync.Once
	done    chan struct{} // closed once nothing more is read
	why     error
}

func (c *connections) add(s *connection) { c.all = append(c.all, s) }

// end ends the reading, of all ranks.
func (c *connections) end(why error) {
	c.once.Do(func() {
		c.why = why
		close(c.done)
	})
}

// Close implements io.Closer.
func (c *connections) Close() error {
	c.end(io.EOF)
	for _, s := range c.all {
		s.c.Close()
	}
	c.readers.Wait()
	return nil
}

// connection is the source of a rank that is a process. A goroutine reads its events, so
// that no process waits until the cluster needs its events.
type connection struct {
	c           net.Conn
	lines       *bufio.Scanner
	log         *recorder
	rank, world int
	of          *connections
	group       int // the process group; 0: unknown

	events chan read
	last   string      // the event that Next returned last
	asks   atomic.Bool // the rank waits for the answer to Now
}

// read is an event, or the reason that there is none.
type read struct {
	event Event
	err   error
}

// read reads events until the rank ends.
func (s *connection) read() {
	for {
		e, err := s.scan()
		if e.Do == Now {
			s.asks.Store(true)
		}
		select {
		case s.events <- read{e, err}:
		case <-s.of.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// Next implements Source.
func (s *connection) Next() (Event, error) {
	select {
	case r := <-s.events:
		return s.take(r)
	default:
	}
	tick := time.NewTicker(max(quiet/8, time.Millisecond))
	defer tick.Stop()
	since, before := time.Now(), time.Duration(-1)
	for {
		select {
		case r := <-s.events:
			return s.take(r)
		case <-tick.C:
			used, known := s.of.used()
			if held := s.of.held(); !known || before < 0 || used-before > quiet/100*time.Duration(len(s.of.all)) || held == "" {
				since, before = time.Now(), used
			} else if time.Since(since) >= quiet {
				s.of.end(fmt.Errorf("the processes have computed next to nothing for %v, and the next event of rank %d does not come; its last one is %s. %s. "+
					"So rank %[2]d waits for another rank in a way that the clock is not told of, such as a thread, a store or a loop: wait by Work.wait or Future.wait",
					quiet, s.rank, s.last, held))
			}
		case <-s.of.done:
			return Event{}, s.of.why
		}
	}
}

// take notes what Next returns.
func (s *connection) take(r read) (Event, error) {
	s.last = r.event.Do
	if r.event.ID != 0 {
		s.last += fmt.Sprintf(" %d", r.event.ID)
	}
	return r.event, r.err
}

// held says which ranks wait for the cluster: for the time, or for their events to be
// read; empty: none does.
func (c *connections) held() string {
	var all []string
	for _, s := range c.all {
		if s.asks.Load() {
			all = append(all, fmt.Sprintf("rank %d waits for the time (gradlab.virtual.now)", s.rank))
		} else if len(s.events) == cap(s.events) {
			all = append(all, fmt.Sprintf("rank %d is %d events ahead", s.rank, maxAhead))
		}
	}
	return strings.Join(all, ", ")
}

// used is the processor time of all ranks' process groups so far.
func (c *connections) used() (time.Duration, bool) {
	groups := map[int]bool{}
	for _, s := range c.all {
		if s.group == 0 {
			return 0, false
		}
		groups[s.group] = true
	}
	return processorTime(groups)
}

// scan reads an event.
func (s *connection) scan() (Event, error) {
	if !s.lines.Scan() {
		err := s.lines.Err()
		if err == nil || errors.Is(err, net.ErrClosed) {
			err = io.EOF
		}
		return Event{}, err
	}
	e, err := ParseEvent(s.lines.Bytes(), s.world)
	if err == nil {
		err = s.log.write(s.rank, e)
	}
	return e, err
}

// Tell implements Source.
func (s *connection) Tell(now time.Duration) error {
	s.asks.Store(false)
	_, err := fmt.Fprintf(s.c, "%.9f\n", now.Seconds())
	return err
}

// recorder keeps the events of all ranks.
type recorder struct {
	mu sync.Mutex
	to io.Writer
}

// recorded is a line of a record.
type recorded struct {
	From  int   `json:"from"`
	Event Event `json:"event"`
}

func (r *recorder) write(rank int, e Event) error {
	if r.to == nil || e.Do == Now {
		return nil
	}
	if e.Do == Hello {
		rank = e.Rank
	}
	b, err := json.Marshal(recorded{rank, e})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.to.Write(append(b, '\n'))
	return err
}

// Recorded reads what Accept kept of a world.
func Recorded(r io.Reader) ([]Source, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+256)
	var ranks []*list
	for n := 1; lines.Scan(); n++ {
		var line struct {
			From  int             `json:"from"`
			Event json.RawMessage `json:"event"`
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		var e Event
		if err == nil {
			e, err = ParseEvent(line.Event, len(ranks))
		}
		switch {
		case err != nil:
		case ranks == nil && e.Do != Hello:
			err = fmt.Errorf("the first event is %q, not %q", e.Do, Hello)
		case ranks == nil:
			ranks = make([]*list, e.World)
			for i := range ranks {
				ranks[i] = &list{}
			}
		case e.Do == Hello && e.World != len(ranks):
			err = fmt.Errorf("a world of %d and one of %d", e.World, len(ranks))
		}
		if err == nil && (line.From < 0 || line.From >= len(ranks)) {
			err = fmt.Errorf("rank %d in a world of %d", line.From, len(ranks))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Do != Hello {
			ranks[line.From].events = append(ranks[line.From].events, e)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if ranks == nil {
		return nil, errors.New("no events")
	}
	out := make([]Source, len(ranks))
	for i, l := range ranks {
		out[i] = l
	}
	return out, nil
}

// list is the source of a rank of a record.
type list struct{ events []Event }

// Next implements Source.
func (l *list) Next() (Event, error) {
	if len(l.events) == 0 {
		return Event{}, io.EOF
	}
	e := l.events[0]
	l.events = l.events[1:]
	return e, nil
}

// Tell implements Source: nobody asks.
func (l *list) Tell(time.Duration) error { return nil }
