// Package commtest is the conformance suite of comm.Net: whoever writes a net
// runs it with one call.
package commtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/patience"
)

// Run runs programs, one per rank, on a fresh net, and returns what it returned.
type Run func(ctx context.Context, programs []comm.Program) error

// Net runs the suite on the net that run is given programs for.
func Net(t *testing.T, run Run) {
	Spread(t, func(int) bool { return true }, run)
}

// Spread is Net in one of several processes that all run it, where run runs those programs
// whose rank is here and returns what it returned in any of them.
func Spread(t *testing.T, here func(rank int) bool, run Run) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, run Run)
	}{
		{"order", order},
		{"what blocked is counted", blocked},
		{"large frames", largeFrames},
		{"tags and any rank", tags},
		{"activities", activities},
		{"work passes its marks in order", marks},
		{"a frame breaks work off", breaks},
		{"a failing rank is told to the others", func(t *testing.T, run Run) { failing(t, here, run) }},
		{"a frame that could not be sent is released", func(t *testing.T, run Run) { unsent(t, here, run) }},
		{"frames before a finish are not lost", finish},
		{"cancelling ends everybody", cancelling},
		{"epochs of membership", epochs},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, run) })
	}
}

// all is the same program for n ranks.
func all(n int, p comm.Program) []comm.Program {
	ps := make([]comm.Program, n)
	for i := range ps {
		ps[i] = p
	}
	return ps
}

// must runs programs that have to end well.
func (run Run) must(t *testing.T, ps []comm.Program) {
	t.Helper()
	if err := run(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
}

// What one rank sends another under a tag arrives in order and unchanged, and is counted at both.
func order(t *testing.T, run Run) {
	const msgs = 200
	run.must(t, all(3, func(ctx context.Context, h comm.Host) error {
		next, prev := (h.Rank()+1)%3, (h.Rank()+2)%3
		for i := 0; i < msgs; i++ {
			if err := h.Send(ctx, next, frame(comm.Gradient, 1, uint64(i), i*37)); err != nil {
				return err
			}
		}
		for i := 0; i < msgs; i++ {
			f, err := h.Recv(ctx, prev, 1)
			if err != nil {
				return err
			}
			if err := check(f, uint64(i), i*37); err != nil {
				return err
			}
			f.Release()
		}
		c := h.Traffic().Count()
		if want := uint64(37 * msgs * (msgs - 1) / 2); c.SentBytes[comm.Gradient] != want || c.RecvBytes[comm.Gradient] != want {
			return fmt.Errorf("traffic %d sent, %d received, want %d", c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient], want)
		}
		for _, p := range h.Traffic().Peers() {
			if (p.Rank == next) != (p.SentBytes == c.SentBytes) || (p.Rank == prev) != (p.RecvBytes == c.RecvBytes) {
				return fmt.Errorf("%v with rank %d, in all %v sent, %v received", p, p.Rank, c.SentBytes, c.RecvBytes)
			}
		}
		return nil
	}))
}

// The time that receives were blocked is counted.
func blocked(t *testing.T, run Run) {
	late := patience.Stretch(20 * time.Millisecond)
	run.must(t, all(2, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 0 {
			f, err := h.Recv(ctx, 1, 3)
			if err != nil {
				return err
			}
			f.Release()
			if err := h.Sleep(ctx, late); err != nil {
				return err
			}
			return h.Send(ctx, 1, frame(comm.Gradient, 3, uint64(late), 100))
		}
		if err := h.Send(ctx, 0, frame(comm.Gradient, 3, 8, 0)); err != nil { // about to wait
			return err
		}
		f, err := h.Recv(ctx, 0, 3)
		if err != nil {
			return err
		}
		late := time.Duration(f.Header.Step) // as the other process says, if it is another
		f.Release()
		if wire, wait := h.Traffic().Blocked(); wait < late/2 || wire < 0 || wire+wait > h.Now() {
			return fmt.Errorf("%v on the wire and %v of waiting for a rank that is %v late", wire, wait, late)
		}
		return nil
	}))
}

// Frames of several megabytes cross each other.
func largeFrames(t *testing.T, run Run) {
	const size = 5 << 20
	run.must(t, all(2, func(ctx context.Context, h comm.Host) error {
		if err := h.Send(ctx, 1-h.Rank(), frame(comm.Parameters, 2, 9, size)); err != nil {
			return err
		}
		f, err := h.Recv(ctx, 1-h.Rank(), 2)
		if err != nil {
			return err
		}
		defer f.Release()
		return check(f, 9, size)
	}))
}

// A receive gets the frames of its tag and rank, or of any.
func tags(t *testing.T, run Run) {
	run.must(t, all(4, func(ctx context.Context, h comm.Host) error {
		if h.Rank() != 0 {
			if err := h.Send(ctx, 0, frame(comm.Gradient, 7, uint64(h.Rank()), 8)); err != nil {
				return err
			}
			return h.Send(ctx, 0, frame(comm.Control, 5, uint64(h.Rank()), 0))
		}
		seen := map[int32]bool{}
		for i := 0; i < 3; i++ {
			f, err := h.Recv(ctx, comm.AnyRank, 5)
			if err != nil {
				return err
			}
			if f.Header.Tag != 5 || seen[f.Header.From] || uint64(f.Header.From) != f.Header.Step {
				return fmt.Errorf("got %+v", f.Header)
			}
			seen[f.Header.From] = true
			f.Release()
		}
		for r := 3; r > 0; r-- {
			f, err := h.Recv(ctx, r, comm.AnyTag)
			if err != nil {
				return err
			}
			if f.Header.Tag != 7 {
				return fmt.Errorf("got %+v", f.Header)
			}
			f.Release()
		}
		return nil
	}))
}

// A rank's activities talk by frames to the own rank, which nobody counts.
func activities(t *testing.T, run Run) {
	run.must(t, all(2, func(ctx context.Context, h comm.Host) error {
		h.Go("echo", func(ctx context.Context, h comm.Host) error {
			for i := 0; i < 10; i++ {
				f, err := h.Recv(ctx, h.Rank(), 11)
				if err != nil {
					return err
				}
				f.Header.Tag = 12
				if err := h.Send(ctx, h.Rank(), f); err != nil {
					return err
				}
			}
			return nil
		})
		for i := 0; i < 10; i++ {
			if err := h.Send(ctx, h.Rank(), frame(comm.Gradient, 11, uint64(i), 3)); err != nil {
				return err
			}
			f, err := h.Recv(ctx, h.Rank(), 12)
			if err != nil {
				return err
			}
			if err := check(f, uint64(i), 3); err != nil {
				return err
			}
			f.Release()
		}
		if n := h.Traffic().Count().SentFrames[comm.Gradient]; n != 0 {
			return fmt.Errorf("%d frames to the own rank were counted", n)
		}
		return nil
	}))
}

// A computation passes its marks in order, each once.
func marks(t *testing.T, run Run) {
	run.must(t, all(2, func(ctx context.Context, h comm.Host) error {
		ran, last := 0, -1
		err := h.Do(ctx, comm.Work{
			Cost: []time.Duration{time.Millisecond, 2 * time.Millisecond},
			Run: func(at func(int) error) error {
				for i := 0; i < 2; i++ {
					ran++
					if err := at(i); err != nil {
						return err
					}
				}
				return nil
			},
			Then: func(i int) error {
				if i != last+1 {
					return fmt.Errorf("mark %d after %d", i, last)
				}
				last = i
				return nil
			},
		})
		if err == nil && (ran != 2 || last != 1) {
			err = fmt.Errorf("ran %d, last mark %d", ran, last)
		}
		return err
	}))
}

// A computation ends when the frame comes that breaks it off, or is there already.
func breaks(t *testing.T, run Run) {
	const late, tag = time.Minute, 7
	ps := all(2, nil)
	ps[0] = func(ctx context.Context, h comm.Host) error {
		if err := h.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		if err := h.Send(ctx, 1, frame(comm.Control, tag-1, 0, 0)); err != nil { // of no interest
			return err
		}
		return h.Send(ctx, 1, frame(comm.Control, tag, 0, 0))
	}
	ps[1] = func(ctx context.Context, h comm.Host) error {
		stop := make(chan struct{})
		w := comm.Work{
			Cost: []time.Duration{late},
			Run: func(at func(int) error) error {
				<-stop
				return errors.New("cut short")
			},
			Then:  func(int) error { return errors.New("the work was finished") },
			Break: tag,
			Abort: sync.OnceFunc(func() { close(stop) }),
		}
		began := h.Now()
		for range 2 { // the second time the frame is there already
			if err := h.Do(ctx, w); !errors.Is(err, comm.ErrBroken) {
				return fmt.Errorf("Do returned %v", err)
			}
		}
		if d := h.Now() - began; d >= late {
			return fmt.Errorf("broken off after %v", d)
		}
		for _, tag := range []comm.Tag{tag, tag - 1} {
			f, err := h.Recv(ctx, 0, tag)
			if err != nil {
				return err
			}
			f.Release()
		}
		w.Run, w.Then, w.Cost[0] = func(at func(int) error) error { return at(0) }, nil, 0
		return h.Do(ctx, w) // nothing is left that breaks it
	}
	run.must(t, ps)
}

// A rank that fails is told to the others, with its reason.
func failing(t *testing.T, here func(int) bool, run Run) {
	boom := errors.New("boom")
	told := make([]string, 3)
	ps := all(3, func(ctx context.Context, h comm.Host) error {
		from := 1
		if h.Rank() == 2 {
			from = comm.AnyRank
		}
		_, err := h.Recv(ctx, from, comm.AnyTag)
		told[h.Rank()] = fmt.Sprint(err)
		var p *comm.PeerError
		if !errors.As(err, &p) || p.Rank != 1 {
			return fmt.Errorf("got %v, want rank 1's death", err)
		}
		return nil
	})
	ps[1] = func(context.Context, comm.Host) error { return boom }
	err := run(t.Context(), ps)
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("got %v, want boom", err)
	}
	for _, r := range []int{0, 2} {
		if here(r) && !strings.Contains(told[r], "boom") {
			t.Errorf("rank %d was told %q, and the run ended with: %v", r, told[r], err)
		}
	}
}

// What was sent before a rank finished is received; what comes after is its end.
func finish(t *testing.T, run Run) {
	ps := []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			for i := 0; i < 20; i++ {
				if err := h.Send(ctx, 1, frame(comm.Gradient, 3, uint64(i), 1000)); err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context, h comm.Host) error {
			for i := 0; i < 20; i++ {
				f, err := h.Recv(ctx, 0, 3)
				if err != nil {
					return err
				}
				f.Release()
			}
			_, err := h.Recv(ctx, 0, 3)
			var p *comm.PeerError
			if !errors.As(err, &p) {
				return fmt.Errorf("got %v, want a PeerError", err)
			}
			return nil
		},
	}
	run.must(t, ps)
}

// A run that is cancelled ends.
func cancelling(t *testing.T, run Run) {
	ctx, cancel := context.WithCancel(context.Background())
	ps := all(3, func(ctx context.Context, h comm.Host) error {
		for {
			if h.Rank() == 0 {
				if err := h.Sleep(ctx, time.Millisecond); err != nil {
					return err
				}
				continue
			}
			if _, err := h.Recv(ctx, 0, comm.AnyTag); err != nil {
				return err
			}
		}
	})
	time.AfterFunc(50*time.Millisecond, cancel)
	done := make(chan error, 1)
	go func() { done <- run(ctx, ps) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error from a cancelled run")
		}
	case <-time.After(patience.Stretch(20 * time.Second)):
		t.Fatal("still running 20 s after the cancel")
	}
}

// A send that fails has given the frame back, once: to a rank that there is not,
// after its context has ended, to a rank that has failed. A net that sends in spite of
// the latter two fails neither.
func unsent(t *testing.T, here func(int) bool, run Run) {
	refused := 0
	try := func(ctx context.Context, h comm.Host, to int, must bool) error {
		buf := comm.NewBuffer(100).Retain() // one reference of the test's own
		clear(buf.B)
		err := h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Gradient, Tag: 9}, buf))
		switch {
		case err == nil && must:
			return fmt.Errorf("a frame to rank %d of %d was sent", to, h.Size())
		case err == nil:
			return nil // it is the net's, for as long as that takes
		case !buf.Sole():
			return fmt.Errorf("a send to rank %d failed (%w) and did not release the frame once", to, err)
		}
		refused++
		buf.Release()
		return nil
	}
	ps := all(3, func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 2 { // hears when rank 0 has tried all
			f, err := h.Recv(ctx, 0, 1)
			f.Release()
			return err
		}
		for _, to := range []int{-1, h.Size()} {
			if err := try(ctx, h, to, true); err != nil {
				return err
			}
		}
		ended, end := context.WithCancel(ctx)
		end()
		if err := try(ended, h, 2, false); err != nil {
			return err
		}
		_, err := h.Recv(ctx, 1, 1)
		var p *comm.PeerError
		if !errors.As(err, &p) || p.Rank != 1 {
			return fmt.Errorf("got %v, want rank 1's death", err)
		}
		if err := try(ctx, h, 1, false); err != nil {
			return err
		}
		return h.Send(ctx, 2, frame(comm.Control, 1, 0, 0))
	})
	ps[1] = func(context.Context, comm.Host) error { return errors.New("boom") }
	if err := run(t.Context(), ps); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want boom", err)
	}
	if here(0) && refused < 2 {
		t.Errorf("%d sends were refused, want those to ranks that there are not", refused)
	}
}

func frame(k comm.Kind, tag comm.Tag, step uint64, size int) comm.Frame {
	b := comm.NewBuffer(size)
	for i := range b.B {
		b.B[i] = byte(uint64(i)*7 + step)
	}
	if size >= 8 {
		binary.LittleEndian.PutUint64(b.B, step)
	}
	return comm.NewFrame(comm.Header{Kind: k, Tag: tag, Step: step, Value: float64(step) / 3}, b)
}

func check(f comm.Frame, step uint64, size int) error {
	if f.Header.Step != step || len(f.Body) != size || f.Header.Value != float64(step)/3 {
		return fmt.Errorf("got step %d, %d bytes, value %v; want step %d, %d bytes", f.Header.Step, len(f.Body), f.Header.Value, step, size)
	}
	for i := range f.Body {
		want := byte(uint64(i)*7 + step)
		if size >= 8 && i < 8 {
			want = byte(step >> (8 * i))
		}
		if f.Body[i] != want {
			return fmt.Errorf("byte %d of frame %d is %d, want %d", i, step, f.Body[i], want)
		}
	}
	return nil
}
