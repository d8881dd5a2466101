package emulate

import "time"

// line is one direction of a NIC. It serves those who have something in turns and
// is busy with each quantum as long as its bytes take. It goes by instants: that
// it is asked late moves nothing.
type line[T any] struct {
	rate  float64       // bytes a second
	free  time.Duration // the instant until which it is busy
	turns []T           // who has something to be served, next one first
	again []T           // who was served last and has more: behind those who came meanwhile
}

// due says when the line serves next; ok is false if nobody wants it to.
func (l *line[T]) due() (at time.Duration, ok bool) {
	return l.free, len(l.turns)+len(l.again) > 0
}

// next takes the one whose turn it is, unless the line is still busy now.
func (l *line[T]) next(now time.Duration) (who T, ok bool) {
	if l.free > now {
		return who, false
	}
	l.turns = append(l.turns, l.again...)
	l.again = l.again[:0]
	if len(l.turns) == 0 {
		return who, false
	}
	who = l.turns[0]
	l.turns = l.turns[:copy(l.turns, l.turns[1:])]
	return who, true
}

// queue puts who at the end of the row.
func (l *line[T]) queue(who T) { l.turns = append(l.turns, who) }

// requeue puts who, which was just served, at the end of the row as it is once
// the line is free.
func (l *line[T]) requeue(who T) { l.again = append(l.again, who) }

// serve carries bytes that were there from ready on and returns when they are
// through.
func (l *line[T]) serve(bytes float64, ready time.Duration) time.Duration {
	l.free = max(l.free, ready) + l.takes(bytes)
	return l.free
}

// takes is how long the line is busy with bytes.
func (l *line[T]) takes(bytes float64) time.Duration { return time.Duration(bytes / l.rate * 1e9) }
