package portable

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const prec = 200

func number(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }

// bigExp is eˣ by its series on x/2ᵏ.
func bigExp(x *big.Float) *big.Float {
	const k = 20
	r := new(big.Float).SetMantExp(x, -k)
	sum, term := number(1), number(1)
	for n := 1.; n < 20; n++ {
		term = new(big.Float).Quo(new(big.Float).Mul(term, r), number(n))
		sum = new(big.Float).Add(sum, term)
	}
	for range k {
		sum = new(big.Float).Mul(sum, sum)
	}
	return sum
}

// bigLog is log x by Newton's steps.
func bigLog(x *big.Float) *big.Float {
	f, _ := x.Float64()
	y := number(math.Log(f))
	for range 3 {
		e := bigExp(y)
		y = new(big.Float).Add(y, new(big.Float).Mul(number(2), new(big.Float).Quo(new(big.Float).Sub(x, e), new(big.Float).Add(x, e))))
	}
	return y
}

// ulps is how many units in the last place got is off.
func ulps(got float64, want *big.Float) float64 {
	w, _ := want.Float64()
	unit := math.Nextafter(math.Abs(w), math.Inf(1)) - math.Abs(w)
	d, _ := new(big.Float).Quo(new(big.Float).Sub(number(got), want), number(unit)).Float64()
	return math.Abs(d)
}

func within(t *testing.T, name string, limit float64, f func(r *rand.Rand) (arg, got float64, want *big.Float)) {
	t.Helper()
	r, worst, where := rand.New(rand.NewPCG(1, 3)), 0.0, 0.0
	for range 3000 {
		x, got, want := f(r)
		if d := ulps(got, want); d > worst {
			worst, where = d, x
		}
	}
	t.Logf("%s: %.3f units in the last place at %v", name, worst, where)
	if !(worst <= limit) {
		t.Errorf("%s is off by %.3f units in the last place at %v", name, worst, where)
	}
}

func TestFunctionsAreAccurate(t *testing.T) {
	within(t, "Exp", 0.6, func(r *rand.Rand) (float64, float64, *big.Float) {
		x := []float64{r.NormFloat64(), -700 + 1400*r.Float64(), 0.4 * r.NormFloat64()}[r.IntN(3)]
		return x, Exp(x), bigExp(number(x))
	})
	within(t, "Log", 0.6, func(r *rand.Rand) (float64, float64, *big.Float) {
		x := []float64{r.Float64(), 1 + 1e-3*r.NormFloat64(), math.Ldexp(1+r.Float64(), r.IntN(2000)-1000)}[r.IntN(3)]
		return x, Log(x), bigLog(number(x))
	})
	within(t, "Log2", 1, func(r *rand.Rand) (float64, float64, *big.Float) {
		x := math.Ldexp(1+r.Float64(), 2+r.IntN(1000))
		return x, Log2(x), new(big.Float).Quo(bigLog(number(x)), bigLog(number(2)))
	})
	within(t, "Pow", 0.6, func(r *rand.Rand) (float64, float64, *big.Float) {
		x, y := math.Ldexp(r.Float64(), r.IntN(40)-20), []float64{1, 80}[r.IntN(2)]*r.NormFloat64()
		if x == 0 || math.Abs(y*math.Log(x)) > 700 {
			x, y = 0.9, 2
		}
		return x, Pow(x, y), bigExp(new(big.Float).Mul(number(y), bigLog(number(x))))
	})
	within(t, "Pow of much", 0.6, func(r *rand.Rand) (float64, float64, *big.Float) {
		x, y := 0.999+0.0009*r.Float64(), float64(r.IntN(500_000))
		return x, Pow(x, y), bigExp(new(big.Float).Mul(number(y), bigLog(number(x))))
	})
}

// bigSinCosPi is the sine and the cosine of πx by their series, on an angle made small and
// doubled again.
func bigSinCosPi(x float64) (sin, cos *big.Float) {
	pi, _, _ := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384460955", 10, prec, big.ToNearestEven)
	const k = 12
	a := new(big.Float).SetMantExp(new(big.Float).Mul(pi, number(x)), -k)
	sin, cos = number(0), number(0)
	term := number(1)
	for n := 0.; n < 30; n++ {
		if int(n)%2 == 0 {
			cos = new(big.Float).Add(cos, term)
			term = new(big.Float).Quo(new(big.Float).Mul(term, a), number(n+1))
		} else {
			sin = new(big.Float).Add(sin, term)
			term = new(big.Float).Neg(new(big.Float).Quo(new(big.Float).Mul(term, a), number(n+1)))
		}
	}
	for range k {
		s := new(big.Float).Mul(number(2), new(big.Float).Mul(sin, cos))
		c := new(big.Float).Sub(number(1), new(big.Float).Mul(number(2), new(big.Float).Mul(sin, sin)))
		sin, cos = s, c
	}
	return sin, cos
}

func TestAnglesAreAccurate(t *testing.T) {
	draw := func(r *rand.Rand) float64 {
		return []float64{2 * r.NormFloat64(), float64(r.IntN(200)) / 128, 0.01 * r.Float64(), 0.25 + 1e-9*r.NormFloat64()}[r.IntN(4)]
	}
	near := func(x float64) bool { return math.Abs(x-math.Round(x)) < 1e-6 }
	within(t, "SinPi", 0.8, func(r *rand.Rand) (float64, float64, *big.Float) {
		x := draw(r)
		if near(x) {
			x = 0.3
		}
		sin, _ := bigSinCosPi(x)
		return x, SinPi(x), sin
	})
	within(t, "CosPi", 0.8, func(r *rand.Rand) (float64, float64, *big.Float) {
		x := draw(r)
		if near(x + 0.5) {
			x = 0.3
		}
		_, cos := bigSinCosPi(x)
		return x, CosPi(x), cos
	})
	for i := -8; i <= 8; i++ {
		x := float64(i) / 2
		sin, cos := []float64{0, 1, 0, -1}[i&3], []float64{1, 0, -1, 0}[i&3]
		if SinPi(x) != sin || CosPi(x) != cos {
			t.Errorf("π·%v: %v, %v, want %v, %v", x, SinPi(x), CosPi(x), sin, cos)
		}
	}
}

// Powers that are exact are exact, and special values are those of package math.
func TestExactAndSpecialValues(t *testing.T) {
	for i := range 23 {
		if got, want := Pow(10, float64(i)), math.Pow10(i); got != want {
			t.Errorf("10^%d = %v", i, got)
		}
	}
	for k := -1074; k < 1024; k++ {
		x := math.Ldexp(1, k)
		if Exp2(float64(k)) != x || Log2(x) != float64(k) {
			t.Errorf("2^%d: %v, %v", k, Exp2(float64(k)), Log2(x))
		}
	}
	inf, nan, none := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	values := []float64{0, none, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e300, -1e300, 1e-300, inf, -inf, nan, 710, -750, 1e19}
	same := func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b || math.Abs(a-b) <= 1e-15*math.Abs(b)
	}
	for _, x := range values {
		for name, f := range map[string][2]func(float64) float64{"Exp": {Exp, math.Exp}, "Log": {Log, math.Log}, "Log2": {Log2, math.Log2}, "Exp2": {Exp2, math.Exp2}, "Erf": {Erf, math.Erf}, "Erfinv": {Erfinv, math.Erfinv}} {
			if got, want := f[0](x), f[1](x); !same(got, want) {
				t.Errorf("%s(%v) = %v, want %v", name, x, got, want)
			}
		}
		for _, y := range values {
			if got, want := Pow(x, y), math.Pow(x, y); !same(got, want) {
				t.Errorf("Pow(%v, %v) = %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestErf(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for range 20000 {
		x := 3 * r.NormFloat64()
		if got := Erf(x); math.Abs(got-math.Erf(x)) > 0x1p-48 {
			t.Fatalf("Erf(%v) = %v, want %v", x, got, math.Erf(x))
		}
		y := 2*r.Float64() - 1
		if got := Erfinv(y); math.Abs(Erf(got)-y) > 0x1p-48 {
			t.Fatalf("Erfinv(%v) = %v, of which Erf is %v", y, got, Erf(got))
		}
	}
}

func BenchmarkFunctions(b *testing.B) {
	for name, f := range map[string]func(float64) float64{"Exp": Exp, "math.Exp": math.Exp, "Log": Log, "math.Log": math.Log, "CosPi": CosPi, "math.Cos": math.Cos,
		"Pow": func(x float64) float64 { return Pow(x, 0.7) }, "math.Pow": func(x float64) float64 { return math.Pow(x, 0.7) }} {
		b.Run(name, func(b *testing.B) {
			x, s := 0.1, 0.0
			for b.Loop() {
				s += f(x)
				x += 1e-9
			}
			_ = s
		})
	}
}
