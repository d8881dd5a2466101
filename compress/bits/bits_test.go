package bits

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPackRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= 8; width++ {
		for _, n := range []int{0, 1, 7, 8, 9, 16, 63, 64, 65, 1000} {
			codes := make([]byte, n)
			for i := range codes {
				codes[i] = byte(r.Uint32()) & byte(1<<width-1)
			}
			p := AppendPacked([]byte{9}, codes, width)
			if p[0] != 9 || len(p) != 1+PackedLen(n, width) {
				t.Fatalf("width %d n %d: %d bytes", width, n, len(p)-1)
			}
			got := make([]byte, n)
			if !Unpack(got, p[1:], width) || !bytes.Equal(got, codes) {
				t.Fatalf("width %d n %d: not the same codes", width, n)
			}
			if Unpack(got, append(p[1:], 0), width) {
				t.Fatalf("width %d n %d: took a trailing byte", width, n)
			}
			if pad := n * width % 8; pad != 0 {
				p[len(p)-1] |= 1 << pad
				if Unpack(got, p[1:], width) {
					t.Fatalf("width %d n %d: took a padding bit", width, n)
				}
			}
		}
	}
}

func TestSigns(t *testing.T) {
	x := []float32{1, -1, 0, float32(math.Copysign(0, -1)), -2, 3, -4, 5, -6}
	p := AppendSigns(nil, x)
	if want := []byte{0b01011010, 1}; !bytes.Equal(p, want) {
		t.Fatalf("got %b want %b", p, want)
	}
	if !SignsOK(p, 9) || SignsOK(p, 8) || SignsOK([]byte{0, 2}, 9) || !SignsOK(nil, 0) {
		t.Fatal("SignsOK")
	}
}

func TestRiceRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for b := uint(0); b <= 31; b++ {
		var v []uint32
		sum := 0
		for i := 0; i < 300; i++ {
			x := r.Uint32() >> (r.Uint32() % 32)
			if x>>b > 3000 {
				x = 3000 << b
			}
			v = append(v, x)
			sum += int(x)
		}
		var w Writer
		for _, x := range v {
			w.Rice(x, b)
		}
		p := w.Flush()
		if len(p) > RiceMaxLen(len(v), sum, int(b)) {
			t.Fatalf("b=%d: %d bytes, bound %d", b, len(p), RiceMaxLen(len(v), sum, int(b)))
		}
		rd := NewReader(p)
		for i, x := range v {
			if got, ok := rd.Rice(b, math.MaxUint32); !ok || got != x {
				t.Fatalf("b=%d: value %d is %d, want %d (%v)", b, i, got, x, ok)
			}
		}
		if !rd.Done() {
			t.Fatalf("b=%d: not done", b)
		}
		for cut := 0; cut < len(p); cut += 1 + len(p)/40 {
			rd, ok := NewReader(p[:cut]), true
			for i := 0; i < len(v) && ok; i++ {
				_, ok = rd.Rice(b, math.MaxUint32)
			}
			if ok {
				t.Fatalf("b=%d: %d of %d bytes gave every value", b, cut, len(p))
			}
		}
	}
	for p, name := range map[string]string{"\x01\x01": "trailing byte", "\x03": "padding bit"} {
		rd := NewReader([]byte(p))
		if rd.Rice(0, 9); rd.Done() {
			t.Errorf("took a %s", name)
		}
	}
	rd := NewReader(make([]byte, 1<<16))
	if _, ok := rd.Rice(0, 1000); ok {
		t.Error("took an endless run")
	}
}

// Random supports must cost what the theory says: within 2 % of the entropy.
func TestRiceNearEntropy(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []float64{0.001, 0.01, 0.03, 0.1} {
		n, k, last := 1<<20, 0, -1
		var gaps []uint32
		for i := 0; i < n; i++ {
			if r.Float64() < p {
				gaps = append(gaps, uint32(i-last-1))
				last = i
				k++
			}
		}
		var w Writer
		b := uint(RiceParam(k, n))
		for _, g := range gaps {
			w.Rice(g, b)
		}
		got := 8 * float64(len(w.Flush())) / float64(k)
		h := -(p*math.Log2(p) + (1-p)*math.Log2(1-p)) / p
		if got > 1.02*h {
			t.Errorf("density %v: %.3f bits an index, entropy %.3f (b=%d)", p, got, h, b)
		}
	}
}

func TestFields(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	var w Writer
	var want []uint64
	var widths []uint
	for range 1000 {
		width := uint(r.Uint32() % 33)
		v := r.Uint64() & (1<<width - 1)
		w.Put(v, width)
		want, widths = append(want, v), append(widths, width)
	}
	p := w.Flush()
	rd := NewReader(p)
	for i, v := range want {
		if got, ok := rd.Get(widths[i]); !ok || got != v {
			t.Fatalf("field %d of %d bits is %d, want %d (%v)", i, widths[i], got, v, ok)
		}
	}
	if _, ok := rd.Get(9); ok || !rd.Done() {
		t.Error("a field was read beyond the end")
	}
}

func TestUvarint(t *testing.T) {
	for _, v := range []uint32{0, 1, 127, 128, 16383, 16384, 1<<21 - 1, 1 << 28, math.MaxUint32} {
		p := AppendUvarint(nil, v)
		if got, n := Uvarint(p); got != v || n != len(p) || n > UvarintMaxLen(1, int(v)) {
			t.Errorf("%d: got %d in %d bytes", v, got, n)
		}
		if _, n := Uvarint(p[:len(p)-1]); n != 0 {
			t.Errorf("%d: took a cut varint", v)
		}
	}
	for _, bad := range []string{"", "\x80\x00", "\xff\xff\xff\xff\x1f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, n := Uvarint([]byte(bad)); n != 0 {
			t.Errorf("took %q", bad)
		}
	}
}

func FuzzReaders(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(3))
	f.Fuzz(func(t *testing.T, p []byte, width uint8) {
		rd := NewReader(p)
		for i := 0; i < 8*len(p)+1; i++ {
			if _, ok := rd.Rice(uint(width)&31, 1<<20); !ok {
				break
			}
		}
		w := int(width)&7 + 1
		codes := make([]byte, 8*len(p)/w)
		if Unpack(codes, p, w) && !bytes.Equal(AppendPacked(nil, codes, w), p) {
			t.Fatal("two encodings of one sequence")
		}
		Uvarint(p)
	})
}

func TestPackedOK(t *testing.T) {
	for width := 2; width <= 8; width++ {
		top := byte(1<<width - 1)
		for _, n := range []int{0, 1, 7, 8, 9, 70} {
			codes := bytes.Repeat([]byte{top - 1}, n)
			if p := AppendPacked(nil, codes, width); !PackedOK(p, n, width) || PackedOK(append(p, 0), n, width) {
				t.Fatalf("width %d n %d", width, n)
			}
			for i := range codes {
				codes[i] = top
				if PackedOK(AppendPacked(nil, codes, width), n, width) {
					t.Fatalf("width %d n %d: took all ones at %d", width, n, i)
				}
				codes[i] = top - 1
			}
		}
	}
	if PackedOK([]byte{0x10}, 2, 2) {
		t.Fatal("took padding")
	}
}

// Gaps in bulk are the codes and the values one by one, and what is malformed is
// refused.
func TestRiceGaps(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for b := uint(0); b <= 31; b++ {
		for _, density := range []float64{1, 0.3, 0.01, 1e-4} {
			var idx []uint32
			next, limit := uint32(r.Uint32()%3), uint32(1<<31)
			for len(idx) < 300 {
				gap := uint32(min(r.ExpFloat64()/density, 3000*math.Exp2(float64(b)), 1e6))
				if density == 1 {
					gap = 0
				}
				next += gap
				idx = append(idx, next)
				next++
			}
			one, bulk := Writer{Buf: []byte{7}}, Writer{Buf: []byte{7}}
			one.Put(5, 3)
			bulk.Put(5, 3)
			at := uint32(0)
			for _, i := range idx {
				one.Rice(i-at, b)
				at = i + 1
			}
			bulk.RiceGaps(idx[:100], b)
			at = idx[99] + 1
			for _, i := range idx[100:] {
				bulk.Rice(i-at, b)
				at = i + 1
			}
			p := one.Flush()
			if !bytes.Equal(p, bulk.Flush()) {
				t.Fatalf("b=%d: other bytes in bulk", b)
			}
			read := func(p []byte, limit uint32) ([]uint32, bool) {
				rd, got := NewReader(p[1:]), make([]uint32, len(idx))
				rd.Get(3)
				ok := rd.RiceGaps(got[:130], b, 0, limit) && rd.RiceGaps(got[130:], b, got[129]+1, limit)
				return got, ok && rd.Done()
			}
			if got, ok := read(p, limit); !ok || !slices.Equal(got, idx) {
				t.Fatalf("b=%d, density %v: other positions (%v)", b, density, ok)
			}
			last := idx[len(idx)-1]
			if _, ok := read(p, last+1); !ok {
				t.Fatalf("b=%d: refused the last position there is", b)
			}
			if _, ok := read(p, last); ok {
				t.Fatalf("b=%d: took a position beyond the end", b)
			}
			if _, ok := read(p[:len(p)-1], limit); ok {
				t.Fatalf("b=%d: took a cut payload", b)
			}
		}
	}
}

// A mask is coded as the places of its bits are.
func TestRiceMask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mask := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.Just(byte(0))), 1, 200).Draw(t, "mask")
		mask[len(mask)-1] |= 1 << rapid.IntRange(0, 7).Draw(t, "last")
		b, before := rapid.UintRange(0, RiceMaskMax).Draw(t, "b"), rapid.UintRange(0, 31).Draw(t, "bits before")
		var idx []uint32
		for i := range 8 * len(mask) {
			if mask[i>>3]>>(i&7)&1 == 1 {
				idx = append(idx, uint32(i))
			}
		}
		var got, want Writer
		for _, w := range []*Writer{&got, &want} {
			w.Put(0x5a5a5a5a, before)
		}
		got.RiceMask(mask, b)
		want.RiceGaps(idx, b)
		for _, w := range []*Writer{&got, &want} {
			w.Put(1, 1)
		}
		if a, b := got.Flush(), want.Flush(); !bytes.Equal(a, b) {
			t.Fatalf("%x, want %x", a, b)
		}
	})
}
