package checkpoint_test

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// An opened state gives its vectors as a decoded one does, and copies none before.
func TestOpenState(t *testing.T) {
	t.Parallel()
	s := checkpoint.New()
	s.Vectors["own/1"], s.Vectors["empty"] = []float32{1, 2, 3}, []float32{}
	s.Bytes["core/0"], s.Ints["version"] = []byte("core"), 7
	b, err := s.Encode(nil, sgd.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkpoint.Open(b)
	if err != nil || len(got.Vectors) > 0 || string(got.Bytes["core/0"]) != "core" || got.Ints["version"] != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, want := range s.Vectors {
		v := make([]float32, len(want))
		if err := got.Vector(name, v); err != nil || !slices.Equal(v, want) || !got.Has(name) {
			t.Errorf("%q: %v, %v", name, v, err)
		}
		if err := got.Vector(name, make([]float32, len(want)+1)); err == nil {
			t.Errorf("%q has another length", name)
		}
	}
	if err := got.Vector("own/2", nil); err == nil || got.Has("own/2") {
		t.Error("a vector that is not there")
	}
	tail := func(v []float32) []float32 { return v[len(v)/2:] }
	for what, s := range map[string]*checkpoint.State{"opened": got, "decoded": s} {
		m := s.Mapped(tail)
		if v := make([]float32, 2); m.Vector("own/1", v) != nil || !slices.Equal(v, []float32{2, 3}) || !m.Has("empty") || m.Ints["version"] != 7 || string(m.Bytes["core/0"]) != "core" {
			t.Errorf("%s, mapped: %v", what, v)
		}
	}
	for n := range b {
		if _, err := checkpoint.Open(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
	}
}
