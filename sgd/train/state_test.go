package train_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

func stateLayout() sgd.Layout {
	var l sgd.Layout
	l.Add("fc1.weight", sgd.Weight, 2, 3)
	l.Add("fc1.bias", sgd.Bias, 1, 3)
	l.Add("odd/name", sgd.Bias, 1, 2)
	return l
}

func someState() *checkpoint.State {
	long := make([]float32, 11)
	for i := range long {
		long[i] = float32(i) - 4.5
	}
	long[0], long[1], long[2] = float32(math.Inf(1)), float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32
	return &checkpoint.State{
		Vectors: map[string][]float32{"param": long, "opt/adam/m": long, "held/0/1": {1, 2, 3}, "empty": {}},
		Bytes:   map[string][]byte{"core/0": {0, 1, 255}, "codec/up/3/fc1.weight": []byte("text")},
		Ints:    map[string]int64{"version": 7, "step/2": -1, "big": math.MaxInt64, "small": math.MinInt64},
	}
}

// A state survives, with the tensors of the model named apart or kept flat.
func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]sgd.Layout{"by tensor": stateLayout(), "flat": {}} {
		t.Run(name, func(t *testing.T) {
			want := someState()
			b, err := want.Encode(nil, l)
			if err != nil {
				t.Fatal(err)
			}
			again, err := want.Encode(nil, l)
			if err != nil || !bytes.Equal(b, again) {
				t.Errorf("the same state is not always the same bytes: %v", err)
			}
			got, err := checkpoint.Decode(b, l)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// A model's file that lacks a tensor is refused.
func TestStateOfAnotherLayout(t *testing.T) {
	t.Parallel()
	l := stateLayout()
	b, err := someState().Encode(nil, l)
	if err != nil {
		t.Fatal(err)
	}
	more := stateLayout()
	more.Add("fc2.weight", sgd.Weight, 4, 4)
	if _, err := checkpoint.Decode(b, more); err == nil {
		t.Error("a state without a tensor of the model is accepted")
	}
}

func TestStateTruncated(t *testing.T) {
	t.Parallel()
	b, err := someState().Encode(nil, stateLayout())
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if _, err := checkpoint.Decode(b[:n], stateLayout()); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
	}
	if _, err := checkpoint.Decode(append(b, 0), stateLayout()); err == nil {
		t.Error("a byte too many is accepted")
	}
}

// Any bytes give a state or an error.
func FuzzDecodeState(f *testing.F) {
	for _, l := range []sgd.Layout{stateLayout(), {}} {
		b, err := someState().Encode(nil, l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{})
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	for _, head := range []string{
		`{"param/fc1.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`,
		`{"/odd/name":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`,
		`{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`,
		`{"a/odd/name":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a/fc1.bias":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}}`,
		`{"__metadata__":{"version":"x"}}`,
	} {
		b := append([]byte{byte(len(head)), 0, 0, 0, 0, 0, 0, 0}, head...)
		f.Add(append(b, make([]byte, 16)...))
		f.Add(append(b, make([]byte, 12)...))
		f.Add(append(b, make([]byte, 8)...))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range []sgd.Layout{stateLayout(), {}} {
			s, err := checkpoint.Decode(b, l)
			if err != nil {
				continue
			}
			size := 0
			for _, v := range s.Vectors {
				size += 4 * len(v)
			}
			if size > len(b)+4*l.Size()*(1+len(s.Vectors)) {
				t.Errorf("%d bytes of vectors from %d bytes", size, len(b))
			}
			if _, err := s.Encode(nil, sgd.Layout{}); err != nil && err.Error() == "" {
				t.Error(err)
			}
		}
	})
}
