package comm

import "slices"

// line is a queue of frames from which any may be taken. The first is taken in constant
// time, however many wait behind it.
type line struct {
	frames []Frame
	head   int // frames before it were taken
}

// add puts a frame at the end.
func (l *line) add(f Frame) {
	if l.head == len(l.frames) {
		l.frames, l.head = l.frames[:0], 0
	}
	if l.head > len(l.frames)/2 && len(l.frames) == cap(l.frames) {
		n := copy(l.frames, l.frames[l.head:])
		clear(l.frames[n:])
		l.frames, l.head = l.frames[:n], 0
	}
	l.frames = append(l.frames, f)
}

// find is the place of the first frame whose header matches, for take; −1: none does.
func (l *line) find(matches func(h *Header) bool) int {
	for i := l.head; i < len(l.frames); i++ {
		if matches(&l.frames[i].Header) {
			return i
		}
	}
	return -1
}

// take removes the frame at a place. Frames before it move, which are those that did not
// match.
func (l *line) take(i int) Frame {
	f := l.frames[i]
	copy(l.frames[l.head+1:i+1], l.frames[l.head:i])
	l.frames[l.head] = Frame{}
	l.head++
	return f
}

// releaseIf removes and releases the frames whose headers match.
func (l *line) releaseIf(matches func(h *Header) bool) {
	l.frames = slices.DeleteFunc(l.frames[l.head:], func(f Frame) bool {
		if !matches(&f.Header) {
			return false
		}
		f.Release()
		return true
	})
	l.head = 0
}
