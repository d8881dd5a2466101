package portable

// The compiler fuses a product and a sum where no conversion stands between them, and the
// processor has an instruction for it. That it does so is looked at when a program starts.
// A conversion keeps it from fusing what z is the product of.

// FMA returns x·y + z, rounded once.
func FMA(x, y, z float32) float32 { return x*y + float32(z) }

// AddScaled sets s to s + a·x, each element rounded once.
func AddScaled(s *[16]float32, a float32, x *[16]float32) {
	for j, v := range x {
		s[j] = a*v + s[j]
	}
}

// probe is two numbers whose product is 1 and a little, which a rounding takes off.
var probe = [2]float32{1 + 0x1p-13, 1 - 0x1p-13}

func init() {
	s, x := [16]float32{-1}, [16]float32{probe[1]}
	if AddScaled(&s, probe[0], &x); s[0] != -0x1p-26 || FMA(probe[0], probe[1], -1) != -0x1p-26 {
		panic("portable: this compiler does not fuse float32 products and sums on arm64, on which results depend")
	}
}
