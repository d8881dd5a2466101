package compress_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

// ranks takes one step with an exchange for each rank and returns the sum, and
// what each rank was credited with.
type ranks []compress.Exchange

func newRanks(t *testing.T, spec string, d, world int) ranks {
	t.Helper()
	var out ranks
	for r := range world {
		b := on(d)
		b.Rank, b.World = r, world
		x, _, err := compress.NewExchange(compress.Families.MustParse(spec), b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func (xs ranks) step(t *testing.T, n int, g [][]float32) (sum []float32, credited [][]float32) {
	t.Helper()
	ops := make([]compress.Op, len(xs))
	for r, x := range xs {
		var err error
		if ops[r], err = x.Begin(g[r], compress.Step{N: n}); err != nil {
			t.Fatal(err)
		}
	}
	for ops[0].Kind != compress.OpNone {
		total, parts := append([]float32(nil), ops[0].Floats...), [][]byte(nil)
		slices := make([][][]byte, len(xs)) // by receiver
		for r := range ops {
			parts = append(parts, bytes.Clone(ops[r].Bytes))
			for to, b := range ops[r].Slices {
				slices[to] = append(slices[to], bytes.Clone(b))
			}
			for i, v := range ops[r].Floats {
				switch {
				case r == 0:
				case ops[0].Kind == compress.OpMax:
					total[i] = max(total[i], v)
				default:
					total[i] += v
				}
			}
		}
		for r, x := range xs {
			copy(ops[r].Floats, total)
			if ops[r].Parts = parts; ops[r].Kind == compress.OpScatter {
				ops[r].Parts = slices[r]
			}
			var err error
			if ops[r], err = x.Next(ops[r]); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum = make([]float32, len(g[0]))
	if err := xs[0].Output(sum, 1); err != nil {
		t.Fatal(err)
	}
	for _, x := range xs {
		c := make([]float32, len(g[0]))
		if err := x.Credited(c, 1); err != nil {
			t.Fatal(err)
		}
		credited = append(credited, c)
	}
	return sum, credited
}

// The sketch finds elements that stand out in the sum alone: every rank has
// larger ones that cancel.
func TestSketchFindsWhatTheSumHides(t *testing.T) {
	const d, world, k = 20000, 4, 20
	xs := newRanks(t, "sketch(keep=0.001,width=20)", d, world)
	g, key := make([][]float32, world), rng.New(5, "sum")
	for r := range g {
		g[r] = gauss(d, r)
		for i := range g[r] {
			g[r][i] *= 0.1
		}
	}
	want := map[int]bool{}
	for len(want) < k {
		want[key.IntN(uint64(len(want)), d)] = true
	}
	for i := range want {
		for r := range g {
			g[r][i] += 3
		}
		g[0][(i+1)%d] += 50
		g[1][(i+1)%d] -= 50
	}
	sum, _ := xs.step(t, 0, g)
	for i, v := range sum {
		if want[i] != (v != 0) {
			t.Errorf("element %d of the sum: %v, planted: %v", i, v, want[i])
		}
	}
}

// Ranks take turns in choosing, and all send what the leader chose.
func TestCLTKTakesTurns(t *testing.T) {
	const d, world = 100, 3
	xs := newRanks(t, "cltk(keep=0.05)", d, world)
	g := make([][]float32, world)
	for r := range g {
		g[r] = gauss(d, r)
		for i := range 5 {
			g[r][20*r+i] = 100
		}
	}
	for n := range 6 {
		sum, credited := xs.step(t, n, g)
		for i, v := range sum {
			if inside := i >= 20*(n%world) && i < 20*(n%world)+5; inside != (v != 0) {
				t.Errorf("step %d: element %d of the sum is %v", n, i, v)
			}
			for r := range credited {
				if v != 0 && credited[r][i] != g[r][i] {
					t.Errorf("step %d: rank %d is credited with %v of %v at %d", n, r, credited[r][i], g[r][i], i)
				}
			}
		}
	}
}

// With one scale for all, the sum costs a byte an element and is off by no more
// than the ranks' roundings.
func TestSharedScalesSumInBytes(t *testing.T) {
	const d, world = 1000, 18
	b := on(d)
	b.World = world
	for spec, size := range map[string]int{
		"intsum(bits=4,bucket=100)": d + 40, "intsum(bits=5,bucket=100)": 2*d + 40, "terngrad(shared=true)": d + 4,
		"thc(chunk=64)": 2*1024 + 4*16, "thc(grid=16,chunk=64)": 2*1024 + 4*16, "thc(bits=3,grid=14,chunk=64)": 1024 + 4*16,
	} {
		if c, _ := compress.ClaimsOf(compress.Families.MustParse(spec), b); c.Asked != size || c.Rounds != 2 {
			t.Errorf("%s claims %d bytes in %d rounds, want %d in 2", spec, c.Asked, c.Rounds, size)
		}
	}
	xs := newRanks(t, "intsum(bits=4,round=nearest,bucket=100)", d, world)
	g, want := make([][]float32, world), make([]float64, d)
	var most float32
	for r := range g {
		g[r] = gauss(d, r)
		for i, v := range g[r] {
			want[i] += float64(v)
			most = max(most, v, -v)
		}
	}
	sum, _ := xs.step(t, 0, g)
	for i, v := range sum {
		if e := float64(v) - want[i]; e*e > float64(world*world)*float64(most/7/2)*float64(most/7/2)*1.001 {
			t.Errorf("element %d is off by %v", i, e)
		}
	}
	b.World = 300
	if _, _, err := compress.NewExchange(compress.IntSum{Bits: 8, Bucket: 64}, b); err == nil {
		t.Error("sums of 300 ranks in 8 bits do not fit two bytes")
	}
}

// Estimates must not be moved by what is lost on the way: ef21 refuses sums that
// are rounded on every hop, and takes the same codecs where they are not.
func TestEF21RefusesSumsOfHalves(t *testing.T) {
	for spec, ok := range map[string]bool{
		"ef21(bf16)": false, "ef21(fp16)": false, "ef21(cltk(keep=0.1,values=bf16))": false,
		"ef21(accumulate(fp16,every=2),unchecked=true)": false, "ef21(feedback(bf16),unchecked=true)": false, "bysize(ef21(bf16),raw,limit=10)": false,
		"ef21(raw)": true, "ef21(topk(keep=0.1,values=bf16))": true, "ef21(cltk(keep=0.1))": true, "ef21(intsum(bits=4,bucket=16))": true,
	} {
		f := compress.Families.MustParse(spec)
		if _, _, err := compress.NewExchange(f, on(50)); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "mode gather") {
			t.Errorf("%s: %v", spec, err)
		}
		if _, err := compress.NewGather(f, on(50)); err != nil {
			t.Errorf("%s, gathered: %v", spec, err)
		}
	}
}

// Accumulation defers and loses nothing: after a step that sends, what came is
// what went in, on every road.
func TestAccumulateLosesNothing(t *testing.T) {
	const d, world = 50, 2
	xs := newRanks(t, "accumulate(raw,every=3)", d, world)
	in, out := make([]float64, d), make([]float64, d)
	for n := range 12 {
		g := [][]float32{gauss(d, 2*n), gauss(d, 2*n+1)}
		sum, _ := xs.step(t, n, g)
		for i, v := range sum {
			in[i] += float64(g[0][i]) + float64(g[1][i])
			out[i] += float64(v)
			if n%3 != 2 && v != 0 {
				t.Fatalf("step %d sends %v", n, v)
			}
			if n%3 == 2 && math.Abs(in[i]-out[i]) > 1e-5 {
				t.Fatalf("step %d: element %d came as %v, went in as %v", n, i, out[i], in[i])
			}
		}
	}
}

// Each role has its codec; blocks without one are weights.
func TestByRole(t *testing.T) {
	f := compress.Families.MustParse("byrole(sign,bf16,norm=raw)").(compress.ByRole)
	for role, want := range map[string]string{"weight": "sign", "bias": "bf16", "norm": "raw", "": "sign"} {
		b := on(5)
		b.Role = role
		if got := compress.Spec(f.Choose(b)); got != want {
			t.Errorf("role %q: %s, want %s", role, got, want)
		}
	}
}

// A preset is worth its bits: two for a value, Rice codes within 3 % of the
// entropy of a random support.
func TestSparseLoCoBits(t *testing.T) {
	const d = 1 << 20
	c, err := compress.Families.MustParse("sparseloco").New(on(d))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Append(nil, gauss(d, 0), compress.Step{})
	if err != nil {
		t.Fatal(err)
	}
	if bits := 8 * float64(len(p)) / d; bits > 0.151 {
		t.Errorf("%.4f bits an element, want 0.149", bits)
	}
}

// Every element goes to the side with more votes, and a tie to either, the same
// one for all.
func TestVoteIsTheMajority(t *testing.T) {
	const d = 1003
	for _, world := range []int{2, 3, 4, 7, 8} {
		xs, g := newRanks(t, "vote", d, world), make([][]float32, world)
		ties, ups := 0, 0
		for step := range 3 {
			for r := range g {
				g[r] = gauss(d, 10*step+r)
			}
			sum, credited := xs.step(t, step, g)
			for i, v := range sum {
				votes := 0
				for r := range g {
					if math.Signbit(float64(g[r][i])) {
						votes--
					} else {
						votes++
					}
				}
				if votes == 0 {
					ties++
					if v > 0 {
						ups++
					}
				}
				if math.Abs(float64(v)) != float64(world) || float64(votes)*float64(v) < 0 {
					t.Fatalf("%d ranks, element %d: %v for %d votes", world, i, v, votes)
				}
				for r := range credited {
					if credited[r][i] != v/float32(world) {
						t.Fatalf("rank %d is credited with %v of %v", r, credited[r][i], v)
					}
				}
			}
		}
		if world%2 == 0 && (ties < 500 || ups < ties*2/5 || ups > ties*3/5) {
			t.Errorf("%d ranks: %d of %d ties went up", world, ups, ties)
		}
	}
}

// Owners encode the sum in the same step as the ranks their slices: a warm-up of
// DGC ends for both.
func TestScatterEncodesSumsInTheirStep(t *testing.T) {
	const d, world = 300, 3
	xs := newRanks(t, "scatter(dgc(keep=0.01,momentum=0,warmup=1))", d, world)
	for r, x := range xs {
		op, err := x.Begin(gauss(d, r), compress.Step{N: 7, Epoch: 2})
		if err != nil {
			t.Fatal(err)
		}
		for from := range xs {
			op.Parts = append(op.Parts, nil)
			if from != r {
				op.Parts[from] = op.Slices[from] // all slices are of 100
			}
		}
		if op, err = x.Next(op); err != nil {
			t.Fatal(err)
		}
		if hits := op.Bytes[0]; hits != 1 {
			t.Errorf("rank %d sends %d sums of its slice, want 1", r, hits)
		}
	}
}
