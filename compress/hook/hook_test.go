package hook

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

const world = 3

var shapes = []struct {
	name, role string
	rows, cols int
}{{"w", "weight", 40, 16}, {"b", "bias", 1, 7}, {"n", "norm", 1, 900}}

func gradientsOf(rank, step int) [][]float32 {
	r := rand.New(rand.NewPCG(uint64(rank), uint64(step)))
	out := make([][]float32, len(shapes))
	for i, s := range shapes {
		out[i] = make([]float32, s.rows*s.cols)
		for j := range out[i] {
			out[i][j] = float32(math.Round(r.NormFloat64()*8) / 8) // sums are exact in any order
		}
	}
	return out
}

func sessions(t *testing.T, spec string) []*Session { t.Helper(); return sessionsOf(t, spec, world) }

func sessionsOf(t *testing.T, spec string, world int) []*Session {
	t.Helper()
	out := make([]*Session, world)
	for rank := range out {
		var err error
		if out[rank], err = Open(spec, rank, world, 5); err != nil {
			t.Fatal(err)
		}
		for i, s := range shapes {
			if id, err := out[rank].Add(s.name, s.role, s.rows, s.cols); err != nil || id != i {
				t.Fatalf("block %d: %v", id, err)
			}
		}
	}
	return out
}

// collective does what a round asks for, over all ranks.
func collective(t *testing.T, of []*Bucket) (more bool) {
	t.Helper()
	asks := make([]Asks, len(of))
	for rank, b := range of {
		asks[rank], more = b.Asks()
	}
	if !more {
		return false
	}
	add := func(v Vector, n int) {
		wire, x, sum := make([]byte, n*v.Wire.Bytes()), make([]float32, n), make([]float32, n)
		for rank, b := range of {
			if err := b.Put(v, wire); err != nil {
				t.Fatal(err)
			}
			wires[v.Wire].set(x, wire)
			for i := range x {
				switch {
				case rank == 0:
					sum[i] = x[i]
				case v.Kind == compress.OpMax:
					sum[i] = max(sum[i], x[i])
				default:
					sum[i] += x[i]
				}
			}
		}
		wires[v.Wire].put(wire, sum)
		for _, b := range of {
			if err := b.Take(v, wire); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := asks[0]
	if a.Max > 0 {
		add(Vector{Kind: compress.OpMax}, a.Max)
	}
	for w, n := range a.Sums {
		if n > 0 {
			add(Vector{compress.OpSum, compress.Wire(w)}, n)
		}
	}
	if a.Gather > 0 {
		parts := make([][]byte, len(of))
		for rank, b := range of {
			var err error
			if parts[rank], err = b.PutGather(nil); err != nil || len(parts[rank]) != asks[rank].Gather {
				t.Fatalf("%d bytes, %d were announced: %v", len(parts[rank]), asks[rank].Gather, err)
			}
			if a.Even && len(parts[rank]) != a.Gather {
				t.Fatalf("even, but rank 0 has %d bytes and rank %d %d", a.Gather, rank, len(parts[rank]))
			}
		}
		for _, b := range of {
			if err := b.TakeParts(compress.OpGather, parts); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a.Scatter != nil {
		for to, b := range of {
			parts := make([][]byte, len(of))
			for rank := range of {
				if parts[rank] = of[rank].PutScatter(nil, to); len(parts[rank]) != asks[rank].Scatter[to] {
					t.Fatalf("%d bytes, %d were announced", len(parts[rank]), asks[rank].Scatter[to])
				}
			}
			if err := b.TakeParts(compress.OpScatter, parts); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range of {
		if err := b.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// step makes a step of all ranks, with the blocks in buckets.
func step(t *testing.T, of []*Session, n int, buckets ...[]int) [][][]float32 {
	t.Helper()
	grads := make([][][]float32, len(of))
	for rank := range of {
		grads[rank] = gradientsOf(rank, n)
	}
	for _, ids := range buckets {
		pick := func(rank int) (out [][]float32) {
			for _, id := range ids {
				out = append(out, grads[rank][id])
			}
			return out
		}
		bs := make([]*Bucket, len(of))
		for rank, s := range of {
			var err error
			if bs[rank], err = s.Begin(compress.Step{N: n, LR: 0.1}, ids, pick(rank)); err != nil {
				t.Fatal(err)
			}
		}
		for collective(t, bs) {
		}
		for rank, b := range bs {
			if err := b.Output(pick(rank), 1/float32(len(of))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return grads
}

// Every codec: all ranks end with the same values, whichever blocks share a bucket, and
// go on with them after a restart.
func TestEveryCodec(t *testing.T) {
	for _, name := range compress.Families.Names() {
		f, _ := compress.Families.Proto(name)
		spec := compress.Spec(f)
		t.Run(name, func(t *testing.T) {
			together, apart := sessions(t, spec), sessions(t, spec)
			for n := range 4 {
				if n == 2 {
					again := sessions(t, spec)
					for rank, s := range apart {
						for id := range shapes {
							b, err := s.AppendState(nil, id)
							if err == nil {
								err = again[rank].Restore(id, b)
							}
							if err != nil {
								t.Fatal(err)
							}
						}
					}
					apart = again
				}
				a, b := step(t, together, n, []int{0, 1, 2}), step(t, apart, n, []int{2}, []int{1, 0})
				for rank := range a {
					for i := range shapes {
						if !slices.Equal(a[rank][i], a[0][i]) || !slices.Equal(a[rank][i], b[rank][i]) {
							t.Fatalf("step %d, rank %d, %s: %.4v in one bucket, %.4v in two, %.4v on rank 0", n, rank, shapes[i].name, a[rank][i][:4], b[rank][i][:4], a[0][i][:4])
						}
					}
				}
			}
		})
	}
}

// With 4, then 3, then 5 ranks the mean of gradients is what was sent and what is owed, and
// so it is where a codec keeps more than that. What cannot be handed over is refused.
func TestAnotherNumberOfRanks(t *testing.T) {
	for _, spec := range []string{
		"feedback(topk(keep=0.05))", "feedback(powersgd(rank=2))", "feedback(sign)", "strom(tau=0.5)", "adacomp(bin=50)",
		"accumulate(feedback(topk(keep=0.1)),every=3)", "dgc(keep=0.05,momentum=0)", "scatter(feedback(topk(keep=0.1)))",
		"byrole(feedback(topk(keep=0.05)),raw,feedback(cltk(keep=0.1)))", "feedback(bf16)",
	} {
		var owed [3][]float64
		for i, s := range shapes {
			owed[i] = make([]float64, s.rows*s.cols)
		}
		var of []*Session
		n := 0
		for _, ranks := range []int{4, 3, 5} {
			again := sessionsOf(t, spec, ranks)
			for id := range shapes {
				states := make([][]byte, len(of))
				for rank, s := range of {
					states[rank], _ = s.AppendState(nil, id)
				}
				for _, s := range again {
					if len(of) > 0 {
						if err := s.Restore(id, states...); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			of = again
			for range 4 {
				got := step(t, of, n, []int{0, 1, 2})
				for id := range shapes {
					for rank := range of {
						for j, x := range gradientsOf(rank, n)[id] {
							owed[id][j] += float64(x-got[rank][id][j]) / float64(ranks)
						}
					}
				}
				n++
			}
			for id := range shapes {
				sum := make([]float32, len(owed[id]))
				for _, s := range of {
					if o, ok := s.blocks[id].ex.(compress.Owing); ok {
						o.AddResidual(sum, 1/float32(ranks))
					}
				}
				for j, want := range owed[id] {
					if math.Abs(float64(sum[j])-want) > 1e-5 {
						t.Fatalf("%s, %d ranks, %s[%d]: %v owed, gradients less what was sent are %v", spec, ranks, shapes[id].name, j, sum[j], want)
					}
				}
			}
		}
	}
	s := sessions(t, "dct(feedback(topk(keep=0.1)))")[0]
	b, _ := s.AppendState(nil, 0)
	if err := s.Restore(0, b, b); err == nil || !strings.Contains(err.Error(), "does not hand over") {
		t.Error(err)
	}
}

// Raw gives the mean, and a caller may make it by itself.
func TestMean(t *testing.T) {
	if raw, cast := sessions(t, "raw")[0], sessions(t, "bf16")[0]; !raw.Plain() || cast.Plain() {
		t.Errorf("raw is plain: %v, bf16: %v", raw.Plain(), cast.Plain())
	}
	got := step(t, sessions(t, "raw"), 0, []int{0, 1, 2})
	for i := range shapes {
		for j, x := range got[0][i] {
			want := float32(0)
			for rank := range world {
				want += gradientsOf(rank, 0)[i][j]
			}
			if want *= float32(1. / world); x != want {
				t.Fatalf("%s[%d] is %v, want %v", shapes[i].name, j, x, want)
			}
		}
	}
}

// Casts whose payloads are what is summed go there and back in a pass each, with the bits
// of the codec's own exchange; others, and those with a memory, do not.
func TestCasts(t *testing.T) {
	for spec, short := range map[string]bool{"bf16": true, "fp16": true, "fp16(stochastic=true)": true, "feedback(bf16)": false, "raw": false, "intsum": false, "topk(keep=1,values=bf16)": false} {
		of := sessions(t, spec)
		for i, b := range of[0].blocks {
			if got := b.cast != nil; got != short {
				t.Errorf("%s, block %d: in one pass: %t", spec, i, got)
			}
		}
		if !short {
			continue
		}
		long := sessions(t, spec)
		for _, s := range long {
			for _, b := range s.blocks {
				b.cast = nil
			}
		}
		want := step(t, long, 3, []int{0, 1, 2})
		for rank, grads := range step(t, of, 3, []int{0, 1, 2}) {
			for i, g := range grads {
				if !slices.Equal(g, want[rank][i]) {
					t.Errorf("%s, rank %d, block %d differs", spec, rank, i)
				}
			}
		}
	}
	// A sum beyond the range is an error, and what is not finite is one at once.
	of := sessions(t, "fp16")
	large := slices.Repeat([]float32{60000}, 7)
	bs := make([]*Bucket, world)
	for rank, s := range of {
		var err error
		if bs[rank], err = s.Begin(compress.Step{}, []int{1}, [][]float32{large}); err != nil {
			t.Fatal(err)
		}
	}
	for collective(t, bs) {
	}
	if err := bs[0].Output([][]float32{large}, 1); !errors.Is(err, compress.ErrNotFinite) || !strings.Contains(err.Error(), "rank 0, step 0, b: ") {
		t.Error(err)
	}
	if _, err := of[1].Begin(compress.Step{}, []int{0, 2}, [][]float32{make([]float32, 640), slices.Repeat([]float32{float32(math.Inf(1))}, 900)}); !errors.Is(err, compress.ErrNotFinite) {
		t.Error(err)
	}
}

// What a caller does wrong is refused, and names the tensor.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		spec        string
		rank, world int
	}{{"tokp", 0, 2}, {"raw", 2, 2}, {"raw", -1, 2}, {"raw", 0, 0}} {
		if _, err := Open(c.spec, c.rank, c.world, 0); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	s := sessions(t, "feedback(topk(keep=0.1))")[0]
	g := gradientsOf(0, 0)
	add := func(name string, rows, cols int) error { _, err := s.Add(name, "", rows, cols); return err }
	begin := func(ids []int, g [][]float32) error { _, err := s.Begin(compress.Step{}, ids, g); return err }
	nan := slices.Clone(g[1])
	nan[3] = float32(math.NaN())
	for want, err := range map[string]error{
		`"w"`:            add("w", 2, 2),
		"0 by 4":         add("x", 0, 4),
		"block 9 of 3":   begin([]int{9}, g[:1]),
		"w: 7 elements":  begin([]int{0}, g[1:2]),
		"1 blocks and 2": begin([]int{0}, g[:2]),
		"b is in two":    begin([]int{1, 1}, [][]float32{g[1], g[1]}),
		"step 0, b":      begin([]int{1}, [][]float32{nan}),
		"state of b":     s.Restore(1, []byte("nonsense")),
		"block -1 of":    s.Restore(-1, nil),
		"keeps nothing":  sessions(t, "topk")[0].Restore(0, []byte{1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	b, err := s.Begin(compress.Step{}, []int{0, 1}, g[:2])
	if err != nil {
		t.Fatal(err)
	}
	own, _ := b.PutGather(nil)
	for name, parts := range map[string][][]byte{
		"few": {own, own}, "short": {own, own, own[:len(own)-1]}, "long": {own, append(slices.Clone(own), 0), own},
		"empty": {own, nil, own}, "a length beyond": {own, own, bytes.Repeat([]byte{255}, len(own))},
	} {
		err := b.TakeParts(compress.OpGather, parts)
		if err == nil || name != "few" && !errors.Is(err, compress.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Put(Vector{Kind: compress.OpSum}, make([]byte, 4)); err == nil {
		t.Error("a vector that was not asked for is put")
	}
	if err := b.Output(g, 1); err == nil {
		t.Error("three gradients of two blocks")
	}
	b.Close()
	if err := begin([]int{0, 1}, g[:2]); err != nil {
		t.Errorf("after a bucket was given up: %v", err)
	}
}

// Tensors may be added while a bucket is under way: the backward pass goes on meanwhile.
func TestAddBesideABucket(t *testing.T) {
	of := sessions(t, "qsgd(bits=4)")
	var wg sync.WaitGroup
	for _, s := range of {
		wg.Go(func() {
			for i := range 50 {
				if _, err := s.Add(fmt.Sprint("more ", i), "bias", 1, 5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 5 {
		step(t, of, n, []int{0, 1, 2})
	}
	wg.Wait()
}
