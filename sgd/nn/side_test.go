package nn

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// A net computes smaller pictures as one that was built for them does, to the bit,
// whatever its scratch was used for before; and its own as if there had been no others.
func TestOtherSides(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"resnet20", "wrn(10,1,ghost=2)", "airbench94(widths=[4,6,5])"} {
		for _, precision := range []Precision{Float32, BFloat16}[:1+len(spec)%2] {
			sides := []int{8, 32, 12, 8}
			if strings.HasPrefix(spec, "airbench94") {
				sides = []int{25, 32, 28, 25}
			}
			n, p := withOptions(t, spec, cifar, Options{Precision: precision})
			for _, side := range sides {
				in := sgd.Shape{C: 3, H: side, W: side}
				b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, 4)
				alone, q := withOptions(t, spec, in, Options{Precision: precision})
				copy(q.Params, p.Params)
				want, err := alone.Grad(context.Background(), q, b)
				if err != nil {
					t.Fatal(err)
				}
				at := sgd.Model(n)
				if side < cifar.H {
					if at, err = n.At(side); err != nil {
						t.Fatal(err)
					}
					b.Side = side
				}
				got, err := at.Grad(context.Background(), p, b)
				if err != nil {
					t.Fatal(err)
				}
				if got != want || !slices.Equal(p.Grad, q.Grad) {
					t.Errorf("%s %v: another gradient at side %d", spec, precision, side)
				}
				if !slices.Equal(at.SpanFLOPs(), alone.SpanFLOPs()) {
					t.Errorf("%s: other operations at side %d", spec, side)
				}
			}
		}
	}
}

// The memory of a pass is made once, for the largest side: other sides take no more,
// and changing between them allocates nothing.
func TestSidesShareMemory(t *testing.T) {
	n, p := withOptions(t, "wrn(10,1)", cifar, Options{})
	p.Threads = 1
	type step struct {
		m sgd.Model
		b sgd.Batch
	}
	var steps []step
	for _, side := range []int{8, 16, 24, 32} {
		m, b := sgd.Model(n), randomBatch(sgd.Sample{Shape: sgd.Shape{C: 3, H: side, W: side}, Classes: 10}, 4)
		if side < 32 {
			var err error
			if m, err = n.At(side); err != nil {
				t.Fatal(err)
			}
			b.Side = side
		}
		steps = append(steps, step{m, b})
	}
	all := func() {
		for _, s := range steps {
			if _, err := s.m.Grad(context.Background(), p, s.b); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := p.Scratch.(*scratch)
	if _, err := steps[0].m.Grad(context.Background(), p, steps[0].b); err != nil {
		t.Fatal(err)
	}
	acts, slopes := &s.acts.full[0], &s.slopes.full[0]
	all()
	if acts != &s.acts.full[0] || slopes != &s.slopes.full[0] {
		t.Error("the memory of the smallest side has no room for the largest")
	}
	if got := testing.AllocsPerRun(3, all); got > 0 {
		t.Errorf("passes of four sides allocate %v times", got)
	}
}

// A model that does not end in a mean over the grid has a fixed side, and says so.
func TestFixedSides(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"lenet5": "has a fixed side", "mlp": "has a fixed side", "resnet20": "no side of 33", "cifar10_full": "has a fixed side", "airbench94(widths=[4,6,5])": "does not fit pictures of side 16",
	} {
		m, err := Models.MustParse(spec).New(sgd.Sample{Shape: cifar, Classes: 10})
		if err != nil {
			t.Fatal(err)
		}
		side := 16
		if spec == "resnet20" {
			side = 33
		}
		if _, err := m.(sgd.Resizable).At(side); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	n, p := withOptions(t, "resnet20", cifar, Options{})
	at, err := n.At(16)
	if err != nil {
		t.Fatal(err)
	}
	b := randomBatch(sgd.Sample{Shape: cifar, Classes: 10}, 2)
	if _, err := at.Grad(context.Background(), p, b); err == nil {
		t.Error("a net of side 16 takes pictures of 32")
	}
	if b.Side = 16; b.Side == 16 {
		if _, err := n.Grad(context.Background(), p, b); err == nil {
			t.Error("a net of side 32 takes pictures of 16")
		}
	}
}
