package portable

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func normals(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}

// apart is how far rows are from orthonormal.
func apart(a []float64, n int) (worst float64) {
	m := len(a) / n
	for i := range n {
		for j := range i + 1 {
			want := 0.0
			if i == j {
				want = 1
			}
			worst = max(worst, math.Abs(dot(a[i*m:(i+1)*m], a[j*m:(j+1)*m])-want))
		}
	}
	return worst
}

// Eigenvalues are gonum's, and rows of v are eigenvectors, also of matrices of low rank, of
// zeros and of one value.
func TestEigen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 4, 7, 20, 65} {
		for _, rank := range []int{0, 1, n / 2, n, 2 * n} {
			a := make([]float64, n*n)
			for range rank {
				x := normals(r, n)
				for i := range n {
					for j := range n {
						a[i*n+j] += x[i] * x[j]
					}
				}
			}
			d, v, e := make([]float64, n), make([]float64, n*n), make([]float64, n)
			Eigen(d, v, slices.Clone(a), e)
			if n == 0 {
				continue
			}
			var want mat.EigenSym
			want.Factorize(mat.NewSymDense(n, slices.Clone(a)), false)
			values := want.Values(nil)
			slices.Reverse(values)
			limit := 1e-13 * (1 + math.Abs(d[0])) * float64(n)
			for i := range d {
				if !(math.Abs(d[i]-values[i]) <= limit) {
					t.Fatalf("n=%d, rank %d: eigenvalue %d is %g, want %g", n, rank, i, d[i], values[i])
				}
				for j := range n {
					if got := dot(a[j*n:(j+1)*n], v[i*n:(i+1)*n]) - d[i]*v[i*n+j]; !(math.Abs(got) <= limit) {
						t.Fatalf("n=%d, rank %d: row %d is off an eigenvector by %g", n, rank, i, got)
					}
				}
			}
			if off := apart(v, n); !(off < 1e-13*float64(n)) {
				t.Errorf("n=%d, rank %d: eigenvectors are off by %g", n, rank, off)
			}
		}
	}
}

// What is not finite neither hangs nor panics.
func TestEigenOfWhatIsNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		a := make([]float64, 25)
		a[7], a[11] = bad, bad
		Eigen(make([]float64, 5), make([]float64, 25), a, make([]float64, 5))
		Orthonormal(a, 5)
	}
}

// Rows become orthonormal and keep the spaces of the first of them.
func TestOrthonormal(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {1, 5}, {3, 3}, {4, 9}, {30, 30}} {
		n, m := shape[0], shape[1]
		for _, dependent := range []bool{false, true} {
			a := normals(r, n*m)
			if dependent && n > 2 {
				copy(a[m:2*m], a[:m])
				clear(a[2*m : 3*m])
			}
			q := slices.Clone(a)
			Orthonormal(q, n)
			if n == 0 {
				continue
			}
			if off := apart(q, n); !(off < 1e-13*float64(m)) {
				t.Errorf("%v: rows are off by %g", shape, off)
			}
			for k := range n {
				rest := slices.Clone(a[k*m : (k+1)*m])
				for j := range k + 1 {
					addTo(rest, -dot(rest, q[j*m:(j+1)*m]), q[j*m:(j+1)*m])
				}
				if left := math.Sqrt(dot(rest, rest)); !(left < 1e-12) {
					t.Errorf("%v: row %d is off the space of the first by %g", shape, k, left)
				}
			}
		}
	}
}
