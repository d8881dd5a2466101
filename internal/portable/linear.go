package portable

import "math"

// dot is the product of two vectors of one length.
func dot(x, y []float64) (s float64) {
	for i, v := range x {
		s += float64(v * y[i])
	}
	return s
}

// addTo adds a·x to y.
func addTo(y []float64, a float64, x []float64) {
	for i, v := range x {
		y[i] += float64(a * v)
	}
}

// reflector turns x into a v for which x − 2·v·(v·x)/(v·v) has its first value alone, and
// returns 2/(v·v) and that value; both are 0 of zeros.
func reflector(x []float64) (by, first float64) {
	norm := math.Sqrt(dot(x, x))
	if norm == 0 {
		return 0, 0
	}
	first = -math.Copysign(norm, x[0])
	x[0] -= first
	return 2 / dot(x, x), first
}

// Orthonormal makes n rows orthonormal in place, by Householder's reflections: the first k
// are in the space of the first k of before, for each k. A row that depends on those before
// becomes any that is orthogonal to them. The rows, in order in a, have at least n values.
func Orthonormal(a []float64, n int) {
	if n == 0 {
		return
	}
	m := len(a) / n
	row := func(i, from int) []float64 { return a[i*m+from : (i+1)*m] }
	for k := range n {
		v := row(k, k)
		by, _ := reflector(v)
		for j := k + 1; j < n; j++ {
			y := row(j, k)
			addTo(y, -by*dot(v, y), v)
		}
	}
	for k := n - 1; k >= 0; k-- {
		v, by := row(k, k), 0.0
		if sum := dot(v, v); sum > 0 {
			by = 2 / sum
		}
		for j := k + 1; j < n; j++ {
			y := row(j, k)
			addTo(y, -by*dot(v, y), v)
		}
		first := -by * v[0]
		for i := range v {
			v[i] = float64(v[i] * first)
		}
		v[0]++
		clear(a[k*m : k*m+k])
	}
}

// Eigen writes the eigenvalues of a symmetric matrix to d, the greatest first, and orthonormal
// eigenvectors to the rows of v (tridiagonal form by Householder, QL with implicit shifts by
// Bowdler, Martin, Reinsch and Wilkinson 1968). With n = len(d), a and v are n×n, and e has
// n values; a and e are overwritten.
func Eigen(d []float64, v, a, e []float64) {
	n := len(d)
	clear(v)
	for i := range n {
		v[i*n+i] = 1
	}
	for k := range n - 2 { // rows k+1 … of a are symmetric; row k keeps the reflector
		x := a[k*n+k+1 : (k+1)*n]
		by, first := reflector(x)
		e[k] = first
		p := d[k+1 : n] // free until its value is known
		for i := range p {
			p[i] = float64(by * dot(a[(k+1+i)*n+k+1:(k+2+i)*n], x))
		}
		addTo(p, -by/2*dot(p, x), x)
		for i := range p {
			y := a[(k+1+i)*n+k+1 : (k+2+i)*n]
			addTo(y, -x[i], p)
			addTo(y, -p[i], x)
		}
	}
	for i := range n {
		d[i] = a[i*n+i]
	}
	if n > 1 {
		e[n-2] = a[(n-2)*n+n-1]
	}
	for k := n - 3; k >= 0; k-- {
		x := a[k*n+k+1 : (k+1)*n]
		if sum := dot(x, x); sum > 0 {
			for i := k + 1; i < n; i++ {
				y := v[i*n+k+1 : (i+1)*n]
				addTo(y, -2/sum*dot(x, y), x)
			}
		}
	}
	diagonalise(d, e, v)
	for i := range n { // the greatest first
		most := i
		for j := i + 1; j < n; j++ {
			if d[j] > d[most] {
				most = j
			}
		}
		if d[i], d[most] = d[most], d[i]; most != i {
			x, y := v[i*n:(i+1)*n], v[most*n:(most+1)*n]
			for k := range x {
				x[k], y[k] = y[k], x[k]
			}
		}
	}
}

// diagonalise takes a tridiagonal matrix, d on its diagonal and e beside it, to its
// eigenvalues in d, and turns the rows of v along. What is not finite ends it early.
func diagonalise(d, e, v []float64) {
	n := len(d)
	for l := range n {
		for range 60 { // three on the average
			m := l
			for m < n-1 && !(math.Abs(e[m]) <= 0x1p-53*(math.Abs(d[m])+math.Abs(d[m+1]))) {
				m++
			}
			if m == l {
				break
			}
			half := (d[l+1] - d[l]) / (2 * e[l])
			shift := d[l] - e[l]/(half+math.Copysign(length(half, 1), half))
			g, sine, cosine, p := d[m]-shift, 1.0, 1.0, 0.0
			i := m - 1
			for ; i >= l; i-- {
				f, b := sine*e[i], cosine*e[i]
				r := length(f, g)
				if e[i+1] = r; r == 0 {
					d[i+1] -= float64(p)
					break
				}
				sine, cosine = f/r, g/r
				g = d[i+1] - float64(p)
				t := float64((d[i]-g)*sine) + float64(2*cosine*b)
				p = sine * t
				d[i+1] = g + float64(p)
				g = float64(cosine*t) - float64(b)
				x, y := v[i*n:(i+1)*n], v[(i+1)*n:(i+2)*n]
				for k, a := range x {
					b := y[k]
					y[k] = float64(sine*a) + float64(cosine*b)
					x[k] = float64(cosine*a) - float64(sine*b)
				}
			}
			if i >= l {
				e[m] = 0
				continue
			}
			d[l] -= float64(p)
			e[l] = g
			if m < n-1 {
				e[m] = 0
			}
		}
	}
}

func length(x, y float64) float64 { return math.Sqrt(float64(x*x) + float64(y*y)) }
