package train

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// numbers is a source whose sample p is p. Batches from bad on fail, those from
// worse on panic.
type numbers struct{ bad, worse uint64 }

func (numbers) Len() int           { return 1 << 30 }
func (numbers) Sample() sgd.Sample { return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 1}, Classes: 1} }

var errBad = errors.New("a bad sample")

func (s numbers) Batch(d sgd.Draw, b *sgd.Batch) error {
	b.X, b.N, b.First = slices.Grow(b.X[:0], d.N)[:d.N], d.N, d.First
	for i := range b.X {
		b.X[i] = float32(d.First + uint64(i))
		if i%16 == 0 {
			runtime.Gosched()
		}
	}
	if d.First >= s.worse {
		panic("a worse sample")
	}
	if d.First >= s.bad {
		return errBad
	}
	return nil
}

// Whatever was drawn ahead, in whatever order, a batch is what the source says
// of it, and the last one lasts while the next is drawn.
func TestLoaderIsTheSource(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := numbers{bad: 1 << 10, worse: 1 << 11}
		l := compute.NewLoader(src)
		draw := rapid.Custom(func(t *rapid.T) sgd.Draw {
			return sgd.Draw{First: uint64(rapid.IntRange(0, 3000).Draw(t, "first")), N: rapid.IntRange(0, 200).Draw(t, "n")}
		})
		var last *sgd.Batch
		var lastDraw, next sgd.Draw
		check := func(b *sgd.Batch, d sgd.Draw) {
			if b.N != d.N || b.First != d.First || len(b.X) != d.N {
				t.Fatalf("batch of %d from %d on, want %+v", b.N, b.First, d)
			}
			for i, v := range b.X {
				if v != float32(d.First+uint64(i)) {
					t.Fatalf("%+v: sample %d is %g", d, i, v)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ahead": func(t *rapid.T) {
				next = draw.Draw(t, "next")
				l.Ahead(next)
				if rapid.Bool().Draw(t, "wait") {
					runtime.Gosched()
				}
				if last != nil {
					check(last, lastDraw)
				}
			},
			"batch": func(t *rapid.T) {
				d := next
				if rapid.IntRange(0, 4).Draw(t, "other") == 0 {
					d = draw.Draw(t, "draw")
				}
				var b *sgd.Batch
				err := func() (err error) {
					defer func() {
						if r := recover(); r != nil {
							err = fmt.Errorf("%v", r)
						}
					}()
					b, err = l.Batch(d)
					return err
				}()
				switch {
				case d.First >= src.worse:
					if err == nil || err.Error() != "a worse sample" {
						t.Fatalf("%+v: %v, want the source's panic", d, err)
					}
					last = nil
				case d.First >= src.bad:
					if err != errBad {
						t.Fatalf("%+v: %v, want the source's error", d, err)
					}
					last = nil
				case err != nil:
					t.Fatal(err)
				default:
					last, lastDraw = b, d
					check(b, d)
				}
			},
		})
	})
}

// Drawing ahead allocates nothing once batches have grown.
func TestLoaderAllocatesNothing(t *testing.T) {
	l := compute.NewLoader(numbers{1 << 40, 1 << 40})
	at := uint64(0)
	if n := testing.AllocsPerRun(200, func() {
		d := sgd.Draw{First: at, N: 64}
		if _, err := l.Batch(d); err != nil {
			t.Fatal(err)
		}
		at += 64
		l.Ahead(sgd.Draw{First: at, N: 64})
		runtime.Gosched()
	}); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
