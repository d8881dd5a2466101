package sim

import "time"

// event is something that happens at a virtual instant: a task goes on, a frame
// arrives, or a fault happens.
type event struct {
	at     time.Duration
	seq    uint64
	task   *task
	gen    uint64 // of the task's sleep; a stale wake-up is ignored
	flight int    // 1 + its index; 0: a task
	deed   int    // 1 + its index; 0: none
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.seq < o.seq
}

// agenda holds the events to come and gives them in order of time, then of being
// made. Most events need no sorting: what happens at once is made in order of
// time, and so are arrivals, as long as all frames travel equally long. Each kind
// has a queue; what does not fit behind its end goes into the heap.
type agenda struct {
	seq    uint64
	queues [2]deque[event]
	heap   []event
}

// Queues by what events are.
const (
	atOnce = iota
	arrivals
	anyTime
)

func (a *agenda) add(kind int, e event) {
	a.seq++
	e.seq = a.seq
	if kind < anyTime {
		q := &a.queues[kind]
		if n := q.len(); n == 0 || q.at(n-1).at <= e.at {
			q.push(e)
			return
		}
	}
	a.push(e)
}

// next is the first event; nil, if there is none. It is good until the agenda
// changes.
func (a *agenda) next() *event {
	first, _ := a.first()
	return first
}

func (a *agenda) first() (first *event, kind int) {
	kind = anyTime
	if len(a.heap) > 0 {
		first = &a.heap[0]
	}
	for k := range a.queues {
		if q := &a.queues[k]; q.len() > 0 {
			if e := q.at(0); first == nil || e.before(first) {
				first, kind = e, k
			}
		}
	}
	return first, kind
}

// take removes the first event; there must be one.
func (a *agenda) take() event {
	_, kind := a.first()
	if kind < anyTime {
		return a.queues[kind].pop()
	}
	return a.pop()
}

func (a *agenda) push(e event) {
	a.heap = append(a.heap, e)
	h := a.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (a *agenda) pop() event {
	h := a.heap
	top, last := h[0], len(h)-1
	e := h[last]
	h[last] = event{}
	h = h[:last]
	a.heap = h
	if last == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&e) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = e
	return top
}
