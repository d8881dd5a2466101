package rng

import (
	"fmt"
	"math"
	"testing"
)

// The numbers of a seed are part of every result and of every checkpoint. A
// change here makes old runs impossible to repeat.
func TestGolden(t *testing.T) {
	k := New(1, "init").With(3).With(0)
	for i, want := range []string{
		"efa7146ebbd1ca61 0.9361431856485246 0.93614316 -1.443673663 2.751111978 936",
		"5b03060ec8c06d57 0.35551488743726767 0.35551488 0.298488143 0.439303556 355",
		"d2db82d443ca0249 0.8236619728302585 0.8236619 1.086377272 1.735352517 823",
	} {
		if got := golden(k, uint64(i)); got != want {
			t.Errorf("draw %d: %s, want %s", i, got, want)
		}
	}
	if got := fmt.Sprint(image(New(1, "shuffle"), 10), image(New(1, "shuffle"), 100)[:8]); got != "[6 1 2 9 5 8 7 0 3 4] [60 11 66 69 65 83 64 86]" {
		t.Errorf("permutations %s", got)
	}
}

func golden(k Key, i uint64) string {
	return fmt.Sprintf("%016x %v %v %.9f %.9f %d", k.Uint64(i), k.Float64(i), k.Float32(i), k.Norm(i), k.Exp(i), k.IntN(i, 1000))
}

// image lists where k sends 0 … n−1.
func image(k Key, n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = k.Permute(i, n)
	}
	return p
}

// SplitMix64 as published (Steele, Lea, Flood 2014; Vigna's splitmix64.c):
// from state 0 the first numbers are these, and our draw i is theirs.
func TestSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		if got := Key(0).Uint64(uint64(i)); got != want {
			t.Errorf("draw %d is %#x, want %#x", i, got, want)
		}
	}
}

// Addresses that differ in anything differ in what is drawn, and the order of
// the keys counts.
func TestAddresses(t *testing.T) {
	seen := map[uint64]string{}
	put := func(k Key, name string) {
		for i := range uint64(4) {
			x, at := k.Uint64(i), fmt.Sprint(name, " draw ", i)
			if other, dup := seen[x]; dup {
				t.Errorf("%s and %s are the same number", at, other)
			}
			seen[x] = at
		}
	}
	for seed := range uint64(5) {
		for _, purpose := range []string{"", "a", "b", "ab", "ba", "init", "dropout"} {
			k := New(seed, purpose)
			put(k, fmt.Sprint(seed, purpose))
			for a := range uint64(8) {
				put(k.With(a), fmt.Sprint(seed, purpose, a))
				for b := range uint64(8) {
					put(k.With(a).With(b), fmt.Sprint(seed, purpose, a, b))
				}
			}
		}
	}
}

func TestPermuteIsABijection(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 1025, 4095, 60000, 65537}
	for n := range 130 {
		if n > 0 {
			sizes = append(sizes, n)
		}
	}
	for _, n := range sizes {
		for seed := range uint64(3) {
			seen := make([]bool, n)
			for i, p := range image(New(seed, "shuffle"), n) {
				if p < 0 || p >= n || seen[p] {
					t.Fatalf("n = %d, seed %d: %d goes to %d, outside or taken", n, seed, i, p)
				}
				seen[p] = true
			}
		}
	}
	for _, n := range []int{1 << 30, math.MaxInt/2 + 1, math.MaxInt} { // too large to list, but no reason to hang
		for i := range 100 {
			if p := Key(7).Permute(n-1-i, n); p < 0 || p >= n {
				t.Fatalf("n = %d: %d is outside", n, p)
			}
		}
	}
}

// Over many keys every place is equally likely for every element, and for
// small n every order.
func TestPermuteIsUniform(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 6, 8, 10, 16, 17, 20, 33, 64, 65, 100} {
		keys := 200000 / n
		count := make([]int, n*n)
		orders := map[string]int{}
		for seed := range keys {
			p := image(New(3, "uniform").With(uint64(seed)), n)
			for i, x := range p {
				count[i*n+x]++
			}
			if n <= 4 {
				orders[fmt.Sprint(p)]++
			}
		}
		fits(t, fmt.Sprintf("places, n = %d", n), count, (n-1)*(n-1), 6)
		if n <= 4 {
			var c []int
			for _, x := range orders {
				c = append(c, x)
			}
			if want := []int{0, 0, 2, 6, 24}[n]; len(c) != want {
				t.Fatalf("n = %d: %d orders of %d", n, len(c), want)
			}
			fits(t, fmt.Sprintf("orders, n = %d", n), c, len(c)-1, 6)
		}
	}
}

// fits is a χ² test of equal counts: the statistic must lie within so many
// standard deviations of its mean.
func fits(t *testing.T, what string, count []int, free int, sigmas float64) {
	t.Helper()
	sum := 0
	for _, c := range count {
		sum += c
	}
	e, chi := float64(sum)/float64(len(count)), 0.0
	for _, c := range count {
		chi += (float64(c) - e) * (float64(c) - e) / e
	}
	if math.Abs(chi-float64(free)) > sigmas*math.Sqrt(2*float64(free)) {
		t.Errorf("%s: χ² = %.1f with %d degrees of freedom", what, chi, free)
	}
}

func TestUniform(t *testing.T) {
	const n, cells = 200000, 50
	k := New(5, "uniform")
	var f64, f32, ints, next [cells]int
	pairs := make([]int, 20*20)
	for i := range uint64(n) {
		x, y := k.Float64(i), k.Float32(i)
		if x < 0 || x >= 1 || y < 0 || y >= 1 {
			t.Fatalf("draw %d: %v, %v", i, x, y)
		}
		f64[int(x*cells)]++
		f32[int(float64(y)*cells)]++
		ints[k.IntN(i, cells)]++
		next[int(k.With(i).Float64(0)*cells)]++ // first draws of neighbouring keys
		pairs[int(x*20)*20+int(k.Float64(i+1)*20)]++
	}
	fits(t, "Float64", f64[:], cells-1, 5)
	fits(t, "Float32", f32[:], cells-1, 5)
	fits(t, "IntN", ints[:], cells-1, 5)
	fits(t, "With", next[:], cells-1, 5)
	fits(t, "pairs of neighbours", pairs, len(pairs)-1, 5)
}

// Every bit of the input, index or key, turns about half of the output.
func TestAvalanche(t *testing.T) {
	for bit := range 64 {
		byIndex, byKey := 0, 0
		for i := range uint64(1000) {
			k := New(i, "avalanche")
			byIndex += ones(k.Uint64(i) ^ k.Uint64(i^1<<bit))
			byKey += ones(k.With(i).Uint64(0) ^ k.With(i^1<<bit).Uint64(0))
		}
		for what, n := range map[string]int{"index": byIndex, "key": byKey} {
			if mean := float64(n) / 1000; math.Abs(mean-32) > 1 {
				t.Errorf("bit %d of the %s turns %.1f bits of 64", bit, what, mean)
			}
		}
	}
}

func ones(x uint64) (n int) {
	for ; x != 0; x &= x - 1 {
		n++
	}
	return n
}

// Moments of the normal and the exponential law, within five standard errors.
func TestMoments(t *testing.T) {
	const n = 400000
	k := New(9, "moments")
	var normal, expo [5]float64
	tail := 0
	for i := range uint64(n) {
		x, e := k.Norm(i), k.Exp(i)
		if math.IsInf(x, 0) || math.IsNaN(x) || e < 0 || math.IsInf(e, 0) {
			t.Fatalf("draw %d: %v, %v", i, x, e)
		}
		for p := 1; p <= 4; p++ {
			normal[p] += math.Pow(x, float64(p)) / n
			expo[p] += math.Pow(e, float64(p)) / n
		}
		if math.Abs(x) > 1.959964 {
			tail++
		}
	}
	for _, c := range []struct {
		what                string
		got, want, variance float64
	}{
		{"mean of Norm", normal[1], 0, 1},
		{"second moment of Norm", normal[2], 1, 2},
		{"third moment of Norm", normal[3], 0, 15},
		{"fourth moment of Norm", normal[4], 3, 96},
		{"|Norm| > 1.96", float64(tail) / n, 0.05, 0.05 * 0.95},
		{"mean of Exp", expo[1], 1, 1},
		{"second moment of Exp", expo[2], 2, 20},
		{"third moment of Exp", expo[3], 6, 684},
	} {
		if math.Abs(c.got-c.want) > 5*math.Sqrt(c.variance/n) {
			t.Errorf("%s: %.4f, want %.4f", c.what, c.got, c.want)
		}
	}
}

func TestIntNCoversAll(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 1000, math.MaxInt} {
		for i := range uint64(200) {
			if x := Key(1).IntN(i, n); x < 0 || x >= n {
				t.Fatalf("IntN(%d) gives %d", n, x)
			}
		}
	}
}

func TestPanics(t *testing.T) {
	for what, f := range map[string]func(){
		"IntN 0":          func() { Key(1).IntN(0, 0) },
		"IntN -1":         func() { Key(1).IntN(0, -1) },
		"Permute at n":    func() { Key(1).Permute(3, 3) },
		"Permute below 0": func() { Key(1).Permute(-1, 3) },
		"Permute of none": func() { Key(1).Permute(0, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s went unnoticed", what)
				}
			}()
			f()
		}()
	}
}

func BenchmarkDraw(b *testing.B) {
	k := New(1, "bench")
	var sink float64
	b.Run("Float64", func(b *testing.B) {
		for i := range b.N {
			sink += k.Float64(uint64(i))
		}
	})
	b.Run("Norm", func(b *testing.B) {
		for i := range b.N {
			sink += k.Norm(uint64(i))
		}
	})
	for _, n := range []int{10, 60000} {
		b.Run(fmt.Sprintf("Permute/%d", n), func(b *testing.B) {
			for i := range b.N {
				sink += float64(k.Permute(i%n, n))
			}
		})
	}
	_ = sink
}
