package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Accept takes the ranks of a world at a listener, one connection each, a line of
// JSON an event. It waits until all are there, or ctx ends. What is read is written
// to record too, unless that is nil. Closing what it returns ends the connections.
func Accept(ctx context.Context, l net.Listener, record io.Writer) ([]Source, io.Closer, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	log := &recorder{to: record}
	all := &connections{}
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
		all.add(c)
		s := &connection{c: c, lines: bufio.NewScanner(c), log: log}
		s.lines.Buffer(nil, maxLine)
		e, err := s.Next()
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
	return sources, all, nil
}

// maxLine bounds an event, of which a group is the longest part.
const maxLine = 64 << 10

type connections struct {
	mu  sync.Mutex
	all []net.Conn
}

func (c *connections) add(n net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, n)
}

// Close implements io.Closer.
func (c *connections) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.all {
		n.Close()
	}
	return nil
}

// connection is the source of a rank that is a process.
type connection struct {
	c           net.Conn
	lines       *bufio.Scanner
	log         *recorder
	rank, world int
}

// Next implements Source.
func (s *connection) Next() (Event, error) {
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
