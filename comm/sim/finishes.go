package sim

import "time"

// finishes is a heap of the active streams by when their first frame is through,
// then by when they became active. Its entries hold what is compared, so that
// sorting does not have to look into the streams.
type finishes []finish

type finish struct {
	at     time.Duration
	order  uint64
	stream *stream
}

const arity = 4

func (f *finish) before(o *finish) bool {
	if f.at != o.at {
		return f.at < o.at
	}
	return f.order < o.order
}

func (q *finishes) add(s *stream) {
	s.place = len(*q)
	*q = append(*q, finish{s.finish, s.order, s})
	q.up(s.place)
}

// moved puts a stream where its finish belongs.
func (q finishes) moved(s *stream) {
	i := s.place
	q[i].at = s.finish
	if !q.up(i) {
		q.down(i)
	}
}

func (q *finishes) remove(s *stream) {
	h := *q
	i, last := s.place, len(h)-1
	if i != last {
		h[i] = h[last]
		h[i].stream.place = i
	}
	h[last] = finish{}
	*q = h[:last]
	if i != last && !q.up(i) {
		q.down(i)
	}
}

func (q finishes) up(i int) (moved bool) {
	f := q[i]
	for i > 0 {
		above := (i - 1) / arity
		if !f.before(&q[above]) {
			break
		}
		q[i] = q[above]
		q[i].stream.place = i
		i, moved = above, true
	}
	q[i] = f
	f.stream.place = i
	return moved
}

func (q finishes) down(i int) {
	f := q[i]
	for {
		first := arity*i + 1
		if first >= len(q) {
			break
		}
		best := first
		for c := first + 1; c < min(first+arity, len(q)); c++ {
			if q[c].before(&q[best]) {
				best = c
			}
		}
		if !q[best].before(&f) {
			break
		}
		q[i] = q[best]
		q[i].stream.place = i
		i = best
	}
	q[i] = f
	f.stream.place = i
}
