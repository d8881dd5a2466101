package portable

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact is x·y + z of any size, rounded once, by big numbers.
func exact(x, y, z float32) float32 {
	p := new(big.Float).SetPrec(2000).SetFloat64(float64(x))
	p.Mul(p, new(big.Float).SetPrec(2000).SetFloat64(float64(y)))
	p.Add(p, new(big.Float).SetPrec(2000).SetFloat64(float64(z)))
	f, _ := p.Float32()
	return f
}

func anyFloat(r *rand.Rand) float32 {
	for {
		f := math.Float32frombits(r.Uint32())
		switch r.IntN(4) {
		case 0:
			f = float32(math.Ldexp(float64(r.IntN(1<<12)-1<<11), r.IntN(60)-30))
		case 1:
			f = math.Float32frombits(r.Uint32()&(1<<31|1<<24-1)) * float32(math.Exp2(float64(r.IntN(100)-50)))
		}
		if f-f == 0 {
			return f
		}
	}
}

func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(x, y, z float32) {
		t.Helper()
		s, v := [16]float32{5: z}, [16]float32{5: y}
		AddScaled(&s, x, &v)
		got, want := FMA(x, y, z), exact(x, y, z)
		if got != want || s[5] != want {
			t.Fatalf("%v·%v + %v = %v, %v, want %v", x, y, z, got, s[5], want)
		}
	}
	for range 300_000 {
		x, y, z := anyFloat(r), anyFloat(r), anyFloat(r)
		if r.IntN(2) == 0 { // near to what the product leaves
			z = -x * y * float32(1+math.Ldexp(r.Float64(), -r.IntN(26)))
		}
		if z-z == 0 {
			check(x, y, z)
		}
	}
	check(1+0x1p-23, 1+0x1p-23, 0x1p24) // float64 makes a tie of it
	check(1, 0x1p-149, 0x1p-125)
	check(0x1p-75, 0x1.8p-75, 0x1p-149)
	check(0x1p-75, 0x1.000002p-75, 0x1p-149)
}

// What is not finite, and signs of zeros, are those of a sum in float64.
func TestFMAOfSpecialValues(t *testing.T) {
	inf, nan, none := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, c := range [][4]float32{
		{inf, 1, 1, inf}, {inf, 0, 1, nan}, {inf, 1, -inf, nan}, {1, 1, nan, nan}, {nan, 0, 0, nan}, {math.MaxFloat32, 2, 0, inf}, {math.MaxFloat32, 2, -inf, -inf},
		{0, -1, none, none}, {0, 1, none, 0}, {1, -1, 1, 0}, {math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32},
	} {
		s, v := [16]float32{c[2]}, [16]float32{c[1]}
		AddScaled(&s, c[0], &v)
		for _, got := range []float32{FMA(c[0], c[1], c[2]), s[0]} {
			if math.Float32bits(got) != math.Float32bits(c[3]) && (got == got || c[3] == c[3]) {
				t.Errorf("%v·%v + %v = %v, want %v", c[0], c[1], c[2], got, c[3])
			}
		}
	}
}

func BenchmarkAddScaled(b *testing.B) {
	var s, x [16]float32
	for i := range x {
		x[i] = rand.Float32() - 0.5
	}
	for b.Loop() {
		AddScaled(&s, 0.3, &x)
	}
}
