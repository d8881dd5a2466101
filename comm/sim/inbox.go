package sim

import "github.com/gradlab/gradlab/comm"

// inbox holds what a rank has been sent and has not received, in the order of
// arrival. Who waits for one sender and tag passes over what others sent ahead of
// it, so senders and tags stand in a queue of their own, small and without
// pointers, beside the frames.
type inbox struct {
	order []ticket // from first on
	first int
	slots []queued
	free  []int32 // places in slots
}

// ticket says where a frame is and whom it is from.
type ticket struct {
	from int32
	tag  comm.Tag
	slot int32
}

func (b *inbox) push(q queued) {
	slot := int32(len(b.slots))
	if n := len(b.free); n > 0 {
		slot, b.free = b.free[n-1], b.free[:n-1]
		b.slots[slot] = q
	} else {
		b.slots = append(b.slots, q)
	}
	if b.first > 0 && len(b.order) == cap(b.order) {
		b.order = b.order[:copy(b.order, b.order[b.first:])]
		b.first = 0
	}
	b.order = append(b.order, ticket{q.frame.Header.From, q.frame.Header.Tag, slot})
}

// take removes the first frame from a sender with a tag, if there is one.
func (b *inbox) take(from int, tag comm.Tag) (q queued, ok bool) {
	for i := b.first; i < len(b.order); i++ {
		t := &b.order[i]
		if !comm.Matches(from, tag, t.from, t.tag) {
			continue
		}
		slot := t.slot
		copy(b.order[b.first+1:i+1], b.order[b.first:i]) // those in front move back by one
		if b.first++; b.first == len(b.order) {
			b.order, b.first = b.order[:0], 0
		}
		q, b.slots[slot] = b.slots[slot], queued{}
		b.free = append(b.free, slot)
		return q, true
	}
	return q, false
}

// pop removes the frame that came first, whatever it is.
func (b *inbox) pop() (q queued, ok bool) {
	if b.first == len(b.order) {
		return q, false
	}
	t := b.order[b.first]
	return b.take(int(t.from), t.tag)
}

// has says whether a frame with the tag is there.
func (b *inbox) has(tag comm.Tag) bool {
	for i := b.first; i < len(b.order); i++ {
		if tag == b.order[i].tag {
			return true
		}
	}
	return false
}
