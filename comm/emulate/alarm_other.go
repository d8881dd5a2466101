//go:build !linux

package emulate

import (
	"errors"
	"sync"
	"time"
)

// alarm rings at a given instant.
type alarm struct {
	timer *time.Timer
	over  chan struct{}
	once  sync.Once
}

func newAlarm() (*alarm, error) {
	return &alarm{timer: time.NewTimer(time.Hour), over: make(chan struct{})}, nil
}

// set lets it ring after d, in place of what was set before.
func (a *alarm) set(d time.Duration) { a.timer.Reset(max(d, 1)) }

// wait waits until it rings, or is closed.
func (a *alarm) wait() error {
	select {
	case <-a.timer.C:
		return nil
	case <-a.over:
		return errors.New("closed")
	}
}

func (a *alarm) close() { a.once.Do(func() { close(a.over) }); a.timer.Stop() }
