package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
)

// exact sends float32 as it is; coarse keeps the upper half of its bits, like
// bfloat16 rounded towards zero.
type (
	exact  struct{}
	coarse struct{}
)

func (exact) Width() int { return 4 }
func (exact) Put(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
func (exact) Add(x []float32, src []byte) {
	for i := range x {
		x[i] += math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
func (exact) Set(x []float32, src []byte) { clear(x); exact{}.Add(x, src) }

func (coarse) Width() int { return 2 }
func (coarse) Put(dst []byte, x []float32) {
	for i, v := range x {
		b := math.Float32bits(v) >> 16
		x[i] = math.Float32frombits(b << 16)
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(b))
	}
}
func (coarse) Add(x []float32, src []byte) {
	for i := range x {
		x[i] += math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}
func (coarse) Set(x []float32, src []byte) { clear(x); coarse{}.Add(x, src) }

// Whatever the topology, the number of ranks, the length and where it is cut:
// all ranks end with the same bits, close to the sum, and the flags of all.
func TestSegmentsOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(Topologies.Names()).Draw(t, "topology")
		topo, _ := Topologies.Proto(name)
		p := rapid.IntRange(2, 9).Draw(t, "ranks")
		n := rapid.IntRange(0, 300).Draw(t, "elements")
		limit := rapid.IntRange(4, 400).Draw(t, "bytes a segment")
		var f Format = exact{}
		if rapid.Bool().Draw(t, "coarse") {
			f = coarse{}
		}
		want := make([]float64, n)
		out := make([][]float32, p)
		ps := make([]comm.Program, p)
		var ranks []int
		for r := range ps {
			ranks = append(ranks, r)
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Sin(float64(1 + r*n + i)))
				want[i] += float64(x[i])
			}
			out[r] = x
			ps[r] = func(ctx context.Context, h comm.Host) error {
				flags, err := allReduce(ctx, h, Group{Ranks: ranks, Me: h.Rank()}, topo, comm.Header{Flags: 1 << h.Rank()}, x, f, limit)
				if err == nil && flags != 1<<p-1 {
					err = fmt.Errorf("flags %b on rank %d", flags, h.Rank())
				}
				return err
			}
		}
		if err := (&local.Net{}).Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
		for r := range out {
			for i, v := range out[r] {
				if math.Float32bits(v) != math.Float32bits(out[0][i]) {
					t.Fatalf("element %d: rank 0 has %v, rank %d has %v", i, out[0][i], r, v)
				}
				if math.Abs(float64(v)-want[i]) > 0.2*float64(p) {
					t.Fatalf("element %d is %v, want %v", i, v, want[i])
				}
			}
		}
	})
}

// Trap: flow control cuts a body anywhere, also in the middle of a float.
func TestTrapFloatsStraddlePieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "elements")
		body := make([]byte, 4*n)
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i)
		}
		exact{}.Put(body, x)
		s := &post{format: exact{}, x: x, add: true}
		if err := s.Begin(&comm.Header{}, len(body)); err != nil {
			t.Fatal(err)
		}
		for len(body) > 0 {
			k := rapid.IntRange(0, min(len(body), 9)).Draw(t, "cut")
			s.Take(body[:k])
			body = body[k:]
		}
		for i, v := range x {
			if v != float32(2*i) {
				t.Fatalf("element %d is %v, want %v", i, v, 2*i)
			}
		}
		if len(s.x) > 0 {
			t.Fatalf("%d elements are missing", len(s.x))
		}
	})
}

// Values that replace others come as they lie in memory, in turns with pieces that are
// handed over, however either is cut.
func TestPiecesLieWhereTheyAreTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "elements")
		x, want := make([]float32, n), make([]float32, n)
		for i := range want {
			want[i] = float32(i + 1)
		}
		body := append([]byte(nil), memory(want)...)
		s := &post{format: inMemory{}, x: x}
		for len(body) > 0 {
			k := rapid.IntRange(0, min(len(body), 9)).Draw(t, "cut")
			if dst := s.Place(); len(dst) > 0 && rapid.Bool().Draw(t, "placed") {
				k = copy(dst[:min(k, len(dst))], body)
				s.Placed(k)
			} else {
				s.Take(body[:k])
			}
			body = body[k:]
		}
		if !slices.Equal(x, want) || len(s.x) > 0 {
			t.Fatalf("%v, want %v, %d elements are missing", x, want, len(s.x))
		}
	})
}

// memory is how values lie there.
func memory(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// inMemory is a format whose wire form is what lies in memory.
type inMemory struct{}

func (inMemory) Width() int                       { return 4 }
func (inMemory) Bytes(x []float32) ([]byte, bool) { return memory(x), true }
func (inMemory) Put(dst []byte, x []float32)      { copy(dst, memory(x)) }
func (inMemory) Add([]float32, []byte)            { panic("nobody adds") }
func (inMemory) Set(x []float32, src []byte)      { copy(memory(x), src) }

// A frame of another step, run or length is refused before a byte of it counts.
func TestStrangeFramesAreRefused(t *testing.T) {
	t.Parallel()
	s := &post{format: exact{}, x: make([]float32, 3), hd: comm.Header{Run: 1, Step: 2}}
	for _, c := range []struct {
		h    comm.Header
		size int
	}{{comm.Header{Run: 1, Step: 3}, 12}, {comm.Header{Run: 2, Step: 2}, 12}, {comm.Header{Run: 1, Step: 2}, 8}, {comm.Header{Run: 1, Step: 2}, 16}} {
		if s.Begin(&c.h, c.size) == nil {
			t.Errorf("%+v with %d bytes was accepted", c.h, c.size)
		}
	}
	if err := s.Begin(&comm.Header{Run: 1, Step: 2}, 12); err != nil {
		t.Error(err)
	}
}

// Short programs are made once, and no more are kept than there is room for.
func TestProgramsAreRemembered(t *testing.T) {
	t.Parallel()
	m := cache{by: map[question]*program{}, most: 1 << 16}
	at := At{Rank: 1, Size: 4, Bytes: 400}
	a, b := m.get(Ring{}, at, 100, 10), m.get(Ring{}, at, 100, 10)
	if a != b {
		t.Error("made twice")
	}
	if m.get(Tree{}, At{Rank: 0, Size: 2, Bytes: 400}, 100, 1); m.segments > 100 {
		t.Error("a long program is kept")
	}
	for n := range 1 << 14 { // each has a dozen segments
		m.get(Ring{}, at, n, 1000)
	}
	segments := 0
	for _, p := range m.by {
		segments += len(p.sends) + len(p.recvs)
	}
	if segments > m.most || segments < m.most/2 || segments != m.segments {
		t.Errorf("%d segments are kept, %d counted", segments, m.segments)
	}
}
