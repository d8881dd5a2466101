package compress

// hadamard multiplies x by the Walsh–Hadamard matrix H of its length, a power
// of two, in place: n·log₂n additions. H·H = n·I; no scaling is done.
func hadamard(x []float32) {
	h := 1
	for ; 4*h <= len(x); h *= 4 { // two levels a pass
		for i := 0; i < len(x); i += 4 * h {
			p, q, r, s := x[i:i+h:i+h], x[i+h:i+2*h], x[i+2*h:i+3*h], x[i+3*h:i+4*h]
			q, r, s = q[:len(p)], r[:len(p)], s[:len(p)]
			for j, a := range p {
				b, c, d := q[j], r[j], s[j]
				a, b = a+b, a-b
				c, d = c+d, c-d
				p[j], q[j], r[j], s[j] = a+c, b+d, a-c, b-d
			}
		}
	}
	if 2*h == len(x) {
		p, q := x[:h:h], x[h:]
		q = q[:len(p)]
		for j, a := range p {
			b := q[j]
			p[j], q[j] = a+b, a-b
		}
	}
}
