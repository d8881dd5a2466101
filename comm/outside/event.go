package outside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// What an event can say. The first five are of the rank, the others are operations.
const (
	Hello = "hello" // of rank Rank in a world of World; the first one of a rank
	Fork  = "fork"  // activity ID begins
	Join  = "join"  // waits until activity ID has ended
	End   = "end"   // of the activity; of activity 0, of the rank
	Wait  = "wait"  // until operation ID is complete
	Step  = "step"  // a step of training has ended
	Now   = "now"   // asks for the time

	AllReduce     = "all_reduce"     // Bytes of elements of Width, a rank
	Broadcast     = "broadcast"      // Bytes from Peer
	Reduce        = "reduce"         // Bytes a rank, to Peer
	AllGather     = "all_gather"     // Bytes a rank
	Gather        = "gather"         // Bytes a rank, to Peer
	Scatter       = "scatter"        // Bytes a rank, from Peer
	ReduceScatter = "reduce_scatter" // Bytes of elements of Width that each rank gets
	AllToAll      = "all_to_all"     // Bytes from each rank to each
	Barrier       = "barrier"
	Send          = "send" // Bytes to Peer
	Recv          = "recv" // from Peer, or from anybody where it is −1
)

var (
	rooted     = []string{Broadcast, Reduce, Gather, Scatter}
	withPeer   = append([]string{Send, Recv}, rooted...)
	operations = append([]string{AllReduce, AllGather, ReduceScatter, AllToAll, Barrier}, withPeer...)
)

// Event is what an activity of a rank does next. Activities are what goes on at
// once within a rank: 0 is its main thread, others begin by Fork. Numbers of
// activities and of operations are the rank's own, and no two are the same.
type Event struct {
	Do    string  `json:"do"`
	Act   int     `json:"act,omitempty"`   // which activity
	Spent float64 `json:"spent,omitempty"` // seconds that it computed since its last event, here
	// Stated is seconds that it computed beside that, on the virtual device.
	Stated float64 `json:"stated,omitempty"`
	ID     int     `json:"id,omitempty"`

	Rank  int `json:"rank,omitempty"`
	World int `json:"world,omitempty"`

	// Of operations. They begin at once, and are complete later. Collectives of a group
	// are made one behind the other, in the order in which a rank begins them.
	Group []int `json:"group,omitempty"` // ranks, in order; none: all
	Of    int   `json:"of,omitempty"`    // tells groups of the same ranks apart
	Bytes int   `json:"bytes,omitempty"`
	Width int   `json:"width,omitempty"` // bytes of an element
	Peer  int   `json:"peer,omitempty"`  // a rank
	Tag   int   `json:"tag,omitempty"`   // of Send and Recv
}

const (
	maxWorld = 4096
	maxBytes = min(1<<40, math.MaxInt/maxWorld) // that one operation may move
	maxID    = 1 << 30
)

// ParseEvent reads an event and refuses what no rank of so large a world can say;
// a world of 0 is not known yet.
func ParseEvent(line []byte, world int) (Event, error) {
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("outside: %q is no event: %w", clip(line), err)
	}
	if err := e.check(world); err != nil {
		return e, fmt.Errorf("outside: event %q: %w", clip(line), err)
	}
	return e, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 120)] }

// check refuses what no rank of so large a world can say.
func (e *Event) check(world int) error {
	const most = 1 << 20
	switch {
	case !(e.Spent >= 0 && e.Spent <= 1e6 && e.Stated >= 0 && e.Stated <= 1e6):
		return fmt.Errorf("%v s and %v s of computing; want 0 to 1e6", e.Spent, e.Stated)
	case e.Act < 0 || e.ID < 0 || e.Act >= maxID || e.ID >= maxID:
		return fmt.Errorf("numbers of activities and operations are 0 to %d", maxID-1)
	case e.Tag < 0 || e.Tag >= most || e.Of < 0 || e.Of >= most:
		return fmt.Errorf("tags and numbers of groups are below %d", most)
	}
	switch e.Do {
	case Hello:
		if e.World < 1 || e.World > maxWorld || e.Rank < 0 || e.Rank >= e.World {
			return fmt.Errorf("rank %d of %d; a world has 1 to %d ranks", e.Rank, e.World, maxWorld)
		}
		return nil
	case Fork, Join, End, Wait, Step, Now:
		return nil
	}
	return e.checkOperation(world)
}

func (e *Event) checkOperation(world int) error {
	if !slices.Contains(operations, e.Do) {
		return fmt.Errorf("there is no %q", e.Do)
	}
	if e.Bytes < 0 || e.Bytes > maxBytes || e.Width < 0 || e.Width > 16 || e.Width > 0 && e.Bytes%e.Width != 0 {
		return fmt.Errorf("%d bytes of elements of %d", e.Bytes, e.Width)
	}
	for i, r := range e.Group {
		if r < 0 || r >= world || slices.Contains(e.Group[:i], r) {
			return fmt.Errorf("group %v of a world of %d", e.Group, world)
		}
	}
	there := e.Peer >= 0 && e.Peer < world && (e.Group == nil || slices.Contains(e.Group, e.Peer))
	// Where an operation has no peer, the field is 0, which need not be of the group.
	if rooted := slices.Contains(withPeer, e.Do); rooted && !there && !(e.Do == Recv && e.Peer == -1) {
		return fmt.Errorf("rank %d is not of the group", e.Peer)
	}
	return nil
}
