package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func sample() *File {
	return &File{
		Meta: map[string]string{"step": "7"},
		Tensors: []Tensor{
			{"param/a", "F32", []int{2, 1}, []byte{1, 2, 3, 4, 5, 6, 7, 8}},
			{"empty", "F32", []int{0}, []byte{}},
			{"state", "U8", []int{3}, []byte{9, 8, 7}},
			{"scalar", "U8", []int{}, []byte{1}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	b, err := sample().Encode([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode(b[1:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(sample(), f) {
		t.Errorf("decoded as %+v", f)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, ts := range [][]Tensor{
		{{"a", "F32", []int{2}, make([]byte, 4)}},
		{{"a", "F31", []int{1}, make([]byte, 4)}},
		{{"a", "U8", []int{1}, []byte{1}}, {"a", "U8", []int{1}, []byte{1}}},
		{{"", "U8", []int{0}, nil}},
	} {
		if _, err := (&File{Tensors: ts}).Encode(nil); err == nil {
			t.Errorf("%v was encoded", ts)
		}
	}
}

// Every truncation is refused; every bit flip gives an error or a file, never
// a panic.
func TestDamage(t *testing.T) {
	b, _ := sample().Encode(nil)
	for i := range b {
		if _, err := Decode(b[:i]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", i, len(b))
		}
	}
	for i := 0; i < 8*len(b); i++ {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		_, _ = Decode(c)
	}
	if _, err := Decode(append(bytes.Clone(b), 0)); err == nil {
		t.Error("a trailing byte was accepted")
	}
}

// of makes a file of a header as it is and so many bytes behind it.
func of(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// A key that is there twice is refused, of the header, of a tensor and of the metadata: a
// reader would take either.
func TestDoubledKeys(t *testing.T) {
	const tensor = `{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	if _, err := Decode(of(`{"a":`+tensor+`,"__metadata__":{"dtype":"a","a":"dtype"}}`, 4)); err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		`{"a":` + tensor + `,"a":` + tensor + `}`:                                        `"a" is there twice`,
		`{"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`:            `"dtype" is there twice`,
		`{"__metadata__":{"step":"1","step":"2"},"a":` + tensor + `}`:                    `"step" is there twice`,
		`{"a":` + tensor + `,"\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`: `"a" is there twice`,
		`{"__metadata__":{},"a":` + tensor + `,"__metadata__":{"x":"y"}}`:                `"__metadata__" is there twice`,
	} {
		if _, err := Decode(of(header, 4)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", header, err, want)
		}
	}
}

// A type that the format has and that is not read here is no broken file.
func TestOtherTypesAreNamed(t *testing.T) {
	for dtype, want := range map[string]error{"F8_E4M3": ErrDType, "F8_E5M2": ErrDType, "F4": ErrDType, "F31": ErrFormat} {
		_, err := Decode(of(`{"w":{"dtype":"`+dtype+`","shape":[4],"data_offsets":[0,4]}}`, 4))
		if !errors.Is(err, want) || !strings.Contains(err.Error(), `tensor "w": dtype "`+dtype+`"; want one of BF16, BOOL, F16`) {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := sample().Encode(nil)
	f.Add(b)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Decode(b)
		if err != nil {
			return
		}
		again, err := file.Encode(nil)
		if err != nil {
			t.Fatalf("decoded but not encodable: %v", err)
		}
		if f2, err := Decode(again); err != nil {
			t.Fatal(err)
		} else if !reflect.DeepEqual(file, f2) {
			t.Fatalf("encoded and decoded: %+v, was %+v", f2, file)
		}
	})
}
