package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type failer interface {
	Helper()
	Fatal(args ...any)
}

// pair makes both sides of a link in this process.
func pair(t failer, size int) (a, b *Link, end func()) {
	t.Helper()
	a, o, err := Create(size)
	if err != nil {
		t.Fatal(err)
	}
	b, err = Open(o, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Answered(); err != nil {
		t.Fatal(err)
	}
	a.Settle()
	return a, b, func() {
		for _, l := range []*Link{a, b} {
			l.Close()
			l.Unmap()
		}
	}
}

// write sends p in pieces of at most n bytes.
func write(w *Writer, p []byte, n int) error {
	for len(p) > 0 {
		if err := w.Wait(context.Background(), 1); err != nil {
			return err
		}
		k := copy(w.Next(n), p)
		w.Wrote(k)
		w.Publish()
		p = p[k:]
	}
	return nil
}

// read waits for bytes.
func read(r *Reader) ([]byte, error) {
	r.Wait()
	return r.Look()
}

// Whatever the pieces, bytes arrive as they were sent, in both directions at
// once.
func TestBytesArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, end := pair(t, 4096)
		defer end()
		total := rapid.IntRange(1, 40000).Draw(t, "bytes")
		n, k := rapid.IntRange(1, 5000).Draw(t, "written at once"), rapid.IntRange(1, 5000).Draw(t, "read at once")
		body := make([]byte, total)
		for i := range body {
			body[i] = byte(i ^ i>>8)
		}
		errs := make(chan error, 4)
		for _, l := range []*Link{a, b} {
			go func() { errs <- write(&l.Out, body, n) }()
			go func() {
				for at := 0; at < total; {
					p, err := read(&l.In)
					if err != nil {
						errs <- err
						return
					}
					p = p[:min(k, len(p))]
					if string(p) != string(body[at:at+len(p)]) {
						errs <- fmt.Errorf("damaged at %d", at)
						return
					}
					at += len(p)
					l.In.Consume(len(p))
				}
				errs <- nil
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	before, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	shm, _ := os.ReadDir("/dev/shm")
	for range 20 {
		_, _, end := pair(t, 4096)
		end()
	}
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before)+2 { // the poller's own
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
	if now, _ := os.ReadDir("/dev/shm"); len(now) != len(shm) {
		t.Errorf("files in /dev/shm: %v", now)
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	if strings.Contains(string(maps), "gradlab-link") {
		t.Error("memory is still mapped")
	}
}

// Every wait ends: by what it waits for, the end of the other side, Close, or
// its context.
func TestWaitsEnd(t *testing.T) {
	wait := func(t *testing.T, do func() error) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- do() }()
		select {
		case err := <-done:
			return err
		case <-time.After(patience.Stretch(10 * time.Second)):
			t.Fatal("still waiting")
			return nil
		}
	}
	later := func(do func()) { time.AfterFunc(20*time.Millisecond, do) }
	t.Run("reader, closed", func(t *testing.T) {
		a, _, end := pair(t, 4096)
		defer end()
		later(a.Close)
		if _, err := read(&a.In); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("reader, finished", func(t *testing.T) {
		a, b, end := pair(t, 4096)
		defer end()
		if err := write(&a.Out, []byte("last words"), 100); err != nil {
			t.Fatal(err)
		}
		b.In.Finish()
		p, err := read(&b.In)
		if string(p) != "last words" || err != nil {
			t.Fatalf("%q %v", p, err)
		}
		b.In.Consume(len(p))
		if _, err := read(&b.In); err != io.EOF {
			t.Error(err)
		}
	})
	t.Run("reader, other side ends", func(t *testing.T) {
		a, b, end := pair(t, 4096)
		defer end()
		if err := write(&a.Out, []byte("last words"), 100); err != nil {
			t.Fatal(err)
		}
		later(a.Close)
		p, err := read(&b.In)
		if string(p) != "last words" || err != nil {
			t.Fatalf("%q %v", p, err)
		}
		b.In.Consume(len(p))
		if err := wait(t, func() error { _, err := read(&b.In); return err }); err != io.EOF {
			t.Error(err)
		}
	})
	full := func(t *testing.T) (*Link, *Link, func()) {
		a, b, end := pair(t, 4096)
		if err := write(&a.Out, make([]byte, 4096), 4096); err != nil {
			t.Fatal(err)
		}
		return a, b, end
	}
	t.Run("writer, closed", func(t *testing.T) {
		a, _, end := full(t)
		defer end()
		later(a.Close)
		if err := wait(t, func() error { return a.Out.Wait(context.Background(), 1) }); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("writer, other side ends", func(t *testing.T) {
		a, b, end := full(t)
		defer end()
		later(b.Close)
		if err := wait(t, func() error { return a.Out.Wait(context.Background(), 1) }); err != io.EOF {
			t.Error(err)
		}
	})
	t.Run("writer, cancelled and again", func(t *testing.T) {
		a, b, end := full(t)
		defer end()
		for range 3 {
			why := errors.New("why")
			ctx, cancel := context.WithCancelCause(context.Background())
			later(func() { cancel(why) })
			if err := wait(t, func() error { return a.Out.Wait(ctx, 1) }); err != why {
				t.Error(err)
			}
		}
		p, _ := read(&b.In)
		later(func() { b.In.Consume(len(p)) })
		if err := wait(t, func() error { return a.Out.Wait(context.Background(), 4096) }); err != nil {
			t.Error(err)
		}
	})
	t.Run("writer, too much", func(t *testing.T) {
		a, _, end := pair(t, 4096)
		defer end()
		if err := a.Out.Wait(context.Background(), 4097); err == nil {
			t.Error("no error")
		}
	})
}

// What cannot be is an error on the side that looks, whatever the other side
// writes.
func FuzzHostileCounters(f *testing.F) {
	f.Add(uint64(5000), uint64(0), uint32(1), uint64(1))
	f.Add(uint64(0), uint64(1)<<63, uint32(0), uint64(0))
	f.Add(^uint64(0), ^uint64(0), ^uint32(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, head, tail uint64, asleep uint32, wanted uint64) {
		a, b, end := pair(t, 4096)
		defer end()
		a.Out.Wrote(len(a.Out.Next(100)))
		a.Out.Publish()
		for _, d := range []int{0, 1} {
			ctl := b.mem[atControl+d*control:]
			binary.LittleEndian.PutUint64(ctl[atHead:], head)
			binary.LittleEndian.PutUint64(ctl[atTail:], tail)
			binary.LittleEndian.PutUint32(ctl[atAsleep:], asleep)
			binary.LittleEndian.PutUint64(ctl[atWanted:], wanted)
		}
		a.In.Finish()
		p, err := read(&a.In)
		if head > 4096 && !errors.Is(err, ErrCorrupt) || len(p) > 4096 {
			t.Errorf("head %d: %d bytes, %v", head, len(p), err)
		}
		room, err := a.Out.Room()
		if tail > 100 && !errors.Is(err, ErrCorrupt) || room > 4096 || room < 0 {
			t.Errorf("tail %d: room for %d, %v", tail, room, err)
		}
		if err == nil {
			a.Out.Wrote(len(a.Out.Next(4096)))
			a.Out.Publish()
		}
		if len(p) > 0 {
			a.In.Consume(len(p))
		}
	})
}

// An offer of anything but sealed memory of the size agreed, with pipes and the
// right nonce, is refused, and nothing of it is kept open.
func TestStrangeOffersAreRefused(t *testing.T) {
	a, good, err := Create(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Unmap()
	defer a.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(int64(atData + 2*8192)); err != nil {
		t.Fatal(err)
	}
	loose, err := unix.MemfdCreate("loose", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(loose)
	if err := unix.Ftruncate(loose, int64(atData+2*8192)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir("/proc/self/fd")
	for name, change := range map[string]func(o *Offer){
		"no such process":    func(o *Offer) { o.PID = 1 << 30 },
		"no such descriptor": func(o *Offer) { o.Memory = 1 << 20 },
		"a file":             func(o *Offer) { o.Memory = int(file.Fd()) },
		"unsealed memory":    func(o *Offer) { o.Memory = loose },
		"another size":       func(o *Offer) { o.Size = 4096 },
		"an odd size":        func(o *Offer) { o.Size = 8193 },
		"no size":            func(o *Offer) { o.Size = 0 },
		"less than nothing":  func(o *Offer) { o.Size = -4096 },
		"too much":           func(o *Offer) { o.Size = math.MaxInt32 &^ 4095 },
		"more than accepted": func(o *Offer) { o.Size = 16384 },
		"another nonce":      func(o *Offer) { o.Nonce = newNonce() },
		"no nonce":           func(o *Offer) { o.Nonce = nil },
		"a file as bell":     func(o *Offer) { o.Bells[2] = int(file.Fd()) },
		"memory as bell":     func(o *Offer) { o.Bells[0] = o.Memory },
	} {
		o := good
		change(&o)
		if _, err := Open(o, 8192); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) != len(before) {
		t.Errorf("%d descriptors before, %d after", len(before), len(after))
	}
	if a.Answered() == nil {
		t.Error("answered by nobody")
	}
	for _, n := range []int{0, -1, 4095, math.MaxInt32 &^ 4095} {
		if _, _, err := Create(n); err == nil {
			t.Errorf("made a ring of %d bytes", n)
		}
	}
}

func BenchmarkRing(b *testing.B) {
	for _, size := range []int{4 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			l, r, end := pair(b, 1<<20)
			defer end()
			b.SetBytes(int64(size))
			go func() {
				for range b.N {
					_ = l.Out.Wait(context.Background(), size)
					for left := size; left > 0; {
						p := l.Out.Next(left)
						clear(p)
						l.Out.Wrote(len(p))
						l.Out.Publish()
						left -= len(p)
					}
				}
			}()
			sum := byte(0)
			for left := b.N * size; left > 0; {
				p, err := read(&r.In)
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; i < len(p); i += 64 {
					sum += p[i]
				}
				left -= len(p)
				r.In.Consume(len(p))
			}
		})
	}
}
