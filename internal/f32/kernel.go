package f32

// The micro-kernel in plain Go: the specification of the assembly, and what
// runs where there is none. It rounds each product before adding it, the
// assembly fuses the two; both then multiply by alpha and add to C with a
// rounding each. So two results differ, per block of k, by at most about
//
//	|alpha| · k · 2^-23 · Σp |a[i,p]|·|b[p,j]|
//
// and plain Go gives the same bits on every machine.

// microGo multiplies the first rows (4 or 6) of a packed 6×k panel of A by a
// packed k×16 panel of B into a rows×16 tile of C:
//
//	for i < rows, j < 16:
//	    s = 0; for p < k: s += a[6p+i] * b[16p+j]
//	    c[i*ldc+j] = alpha*s, plus what was there if add
func microGo(rows, k int, a, b []float32, alpha float32, c []float32, ldc int, add bool) {
	for i := 0; i < rows; i += 2 {
		for j := 0; j < tileCols; j += 4 {
			// Two by four sums fit the registers.
			var s00, s01, s02, s03, s10, s11, s12, s13 float32
			pa, pb := a[i:], b[j:]
			for p := range k {
				u, v := (*[2]float32)(pa[p*tileRows:]), (*[4]float32)(pb[p*tileCols:])
				s00 += float32(u[0] * v[0])
				s01 += float32(u[0] * v[1])
				s02 += float32(u[0] * v[2])
				s03 += float32(u[0] * v[3])
				s10 += float32(u[1] * v[0])
				s11 += float32(u[1] * v[1])
				s12 += float32(u[1] * v[2])
				s13 += float32(u[1] * v[3])
			}
			for x, s := range [2][4]float32{{s00, s01, s02, s03}, {s10, s11, s12, s13}} {
				r := (*[4]float32)(c[(i+x)*ldc+j:])
				for y := range r {
					if v := float32(alpha * s[y]); add {
						r[y] += v
					} else {
						r[y] = v
					}
				}
			}
		}
	}
}
