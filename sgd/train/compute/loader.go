package compute

import (
	"sync/atomic"

	"github.com/gradlab/gradlab/sgd"
)

// Loader draws batches, the next one ahead of its use while the cores have
// nothing better to do. Samples and their augmentation are addressed, so when a
// batch is drawn, and by whom, changes no bit of it.
//
// A Loader belongs to one goroutine at a time.
type Loader struct {
	src    sgd.Source
	now    *sgd.Batch // lent to the caller
	next   *sgd.Batch
	draw   sgd.Draw // of next
	asked  bool     // next was asked for and not yet fetched
	err    error    // of next
	whole  bool     // next was drawn to its end, or to err
	open   atomic.Bool
	drawn  chan struct{} // one token once next, taken by ahead's goroutine, is ready
	helper func()
}

// NewLoader makes a loader of samples of src.
func NewLoader(src sgd.Source) *Loader {
	l := &Loader{src: src, now: &sgd.Batch{}, next: &sgd.Batch{}, drawn: make(chan struct{}, 1)}
	l.helper = l.help
	return l
}

// Batch returns the samples at d, which stay as they are until the call after
// the next.
func (l *Loader) Batch(d sgd.Draw) (*sgd.Batch, error) {
	ready := l.settle() && l.draw == d
	l.now, l.next = l.next, l.now
	if ready {
		return l.now, l.err
	}
	return l.now, l.src.Batch(d, l.now)
}

// Ahead begins to draw the samples at d, which batch will be asked for next.
func (l *Loader) Ahead(d sgd.Draw) {
	l.settle()
	l.draw, l.asked = d, true
	l.open.Store(true)
	go l.helper()
}

// settle ends what ahead began, and says whether next is ready. What nobody has
// begun is left to the caller, who is on a core already.
func (l *Loader) settle() bool {
	if !l.asked {
		return false
	}
	l.asked = false
	if l.open.CompareAndSwap(true, false) {
		return false
	}
	<-l.drawn
	return l.whole
}

// help draws next, unless it was begun or given up meanwhile. A source that
// panics does so again when the caller draws for itself.
func (l *Loader) help() {
	if !l.open.CompareAndSwap(true, false) {
		return
	}
	l.whole = false
	defer func() {
		_ = recover()
		l.drawn <- struct{}{}
	}()
	l.err = l.src.Batch(l.draw, l.next)
	l.whole = true
}
