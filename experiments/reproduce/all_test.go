package reproduce

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments"
)

// Studies go on two at a time, those that measure the machine by themselves.
func TestSchedule(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running, most := map[string]bool{}, 0
	var ended []string
	alone := func(name string) bool { return name[0] == 'A' }
	schedule([]string{"a", "A1", "b", "c", "A2", "d"}, alone, func(name string) {
		mu.Lock()
		running[name] = true
		most = max(most, len(running))
		if alone(name) && len(running) > 1 {
			t.Errorf("%s runs beside others: %v", name, running)
		}
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		delete(running, name)
		ended = append(ended, name)
		mu.Unlock()
	})
	if most != atOnce || len(ended) != 6 || !slices.Equal(ended[4:], []string{"A1", "A2"}) {
		t.Errorf("%d at once, ended %v", most, ended)
	}
	if !wantsAll("osu") || !wantsAll("emulated") || wantsAll("ddl") || wantsAll("nothing") {
		t.Error("who wants the machine")
	}
}

// Runs of all studies share the cores; stopping ends the wait for one, and no
// more studies begin.
func TestAllStops(t *testing.T) {
	t.Parallel()
	l := &Lab{slots: make(chan struct{}, 1)}
	release, err := l.turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.turn(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second turn on one core: %v", err)
	}
	release()
	l.Runs.Stopping = func() bool { return true }
	if _, err := l.turn(t.Context()); !errors.Is(err, experiments.ErrStopped) || len(l.slots) != 0 {
		t.Errorf("a turn when stopping: %v, %d taken", err, len(l.slots))
	}
	All(t.Context(), []string{"ps-vs-ring", "osu"}, func(string) *Lab { return l }, func(name string, _ *Report, err error) {
		t.Errorf("%s ran: %v", name, err)
	})
}
