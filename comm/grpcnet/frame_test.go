package grpcnet

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/gradlab/gradlab/comm"
)

func sample(size int) comm.Frame {
	return comm.NewFrame(comm.Header{
		Run: 1, Epoch: 2, Incarnation: 3, From: 4, To: 5, Tag: 6, Kind: comm.Parameters, Code: 7, Flags: 8,
		Shard: 9, Step: 10, Seq: 11, Version: 12, Value: math.Pi,
	}, body(size, 3))
}

// pieces cuts b as flow control might.
func pieces(b []byte, n int) mem.BufferSlice {
	s := mem.BufferSlice{mem.SliceBuffer(nil)}
	for len(b) > 0 {
		k := min(n, len(b))
		s = append(s, mem.SliceBuffer(b[:k]))
		b = b[k:]
	}
	return s
}

func TestFrameRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, 7, 1000, 5000} {
		f := sample(size)
		wire := appendFrame(nil, f)
		if len(wire) != headerSize+size+trailerSize {
			t.Errorf("%d bytes on the wire", len(wire))
		}
		g, err := decodeFrame(wire, size)
		if err != nil || g.Header != f.Header || !bytes.Equal(g.Body, f.Body) || g.Billed != f.Billed {
			t.Fatalf("got %+v, %v", g.Header, err)
		}
	}
}

// However the bytes are cut, in pieces and in messages, the frame is the same.
func TestFrameCutAnywhere(t *testing.T) {
	f := sample(300)
	wire := appendFrame(nil, f)
	for cut := headerSize; cut <= len(wire); cut++ {
		for _, n := range []int{1, 3, 64, 1000} {
			a := assembler{max: 300}
			c := cursor{s: pieces(wire[:cut], n)}
			g, done, err := a.start(&c)
			if err == nil && !done {
				c = cursor{s: pieces(wire[cut:], n)}
				g, done, err = a.more(&c)
			}
			if err != nil || !done || !bytes.Equal(g.Body, f.Body) {
				t.Fatalf("cut at %d in pieces of %d: done %v, %v", cut, n, done, err)
			}
		}
	}
}

// F14: every truncation and every flipped bit is refused.
func TestF14DamagedFrames(t *testing.T) {
	wire := appendFrame(nil, sample(50))
	for n := range wire {
		if _, err := decodeFrame(wire[:n], 1000); err == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(wire))
		}
	}
	for i := range 8 * len(wire) {
		b := bytes.Clone(wire)
		b[i/8] ^= 1 << (i % 8)
		if _, err := decodeFrame(b, 1000); err == nil {
			t.Errorf("flipped bit %d was accepted", i)
		}
	}
	if _, err := decodeFrame(append(bytes.Clone(wire), 0), 1000); err == nil {
		t.Error("a byte too many was accepted")
	}
}

// F15: a header alone makes nobody allocate what it claims.
func TestF15HugeClaims(t *testing.T) {
	for _, claim := range []uint64{1001, 1 << 31, 1 << 40, math.MaxUint64} {
		wire := appendFrame(nil, sample(0))
		le.PutUint64(wire[80:], claim)
		if _, err := decodeFrame(wire, 1000); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("claim of %d: %v", claim, err)
		}
	}
	wire := appendHeader(nil, &comm.Header{}, 0, 1<<30)
	a := assembler{max: 1 << 30}
	c := cursor{s: pieces(wire, 50)}
	if _, done, err := a.start(&c); done || err != nil || len(a.buf.B) > firstAlloc {
		t.Errorf("done %v, %v, %d bytes", done, err, len(a.buf.B))
	}
	a.drop()
}

// A body beyond the first allocation grows without a change.
func TestFrameGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 200 MB")
	}
	f := comm.NewFrame(comm.Header{}, comm.NewBuffer(firstAlloc+5<<20))
	for i := 0; i < len(f.Body); i += 4099 {
		f.Body[i] = byte(i / 4099)
	}
	a := assembler{max: len(f.Body)}
	wire := appendFrame(nil, f)
	c := cursor{s: pieces(wire, 1<<20)}
	g, done, err := a.start(&c)
	if err != nil || !done || !bytes.Equal(f.Body, g.Body) {
		t.Fatal(done, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, sample(0)), uint16(1))
	f.Add(appendFrame(nil, sample(33)), uint16(100))
	f.Add(appendFrame(nil, sample(2000))[:700], uint16(300))
	f.Add([]byte{frameMagic, frameVersion}, uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		const limit = 1 << 16
		g, err := decodeFrame(b, limit)
		if err == nil {
			if again := appendFrame(nil, g); !bytes.Equal(again, b) {
				t.Fatalf("%x became %x", b, again)
			}
			g.Release()
		}
		// The same bytes as chunks of cut bytes, in pieces of cut/3.
		n := max(int(cut)+1, len(b)/1000)
		a := assembler{max: limit}
		whole := false
		for i := 0; i < len(b); i += n {
			c := cursor{s: pieces(b[i:min(i+n, len(b))], n/3+1)}
			step := a.more
			if i == 0 {
				step = a.start
			}
			g, done, e := step(&c)
			if e != nil {
				break
			}
			if done {
				g.Release()
				whole = i+n >= len(b)
			}
		}
		a.drop()
		if whole && err != nil {
			t.Fatalf("in pieces accepted, whole refused: %v", err)
		}
	})
}
