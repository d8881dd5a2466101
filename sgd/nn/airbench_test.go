package nn

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

var update = flag.Bool("update", false, "write whitening.txt and files in testdata anew")

// secondMoments is E[p·pᵀ] of the 2×2 patches p of images C×H×W, in the order ky, kx,
// channel.
func secondMoments(b sgd.Batch, s sgd.Shape) *mat.SymDense {
	const k = 2
	n := k * k * s.C
	sums, patches := mat.NewSymDense(n, nil), 0
	patch := mat.NewVecDense(n, nil)
	for i := range b.N {
		x := b.X[i*s.Len() : (i+1)*s.Len()]
		for h := range s.H - k + 1 {
			for w := range s.W - k + 1 {
				for j := range n {
					ky, kx, c := j/(k*s.C), j/s.C%k, j%s.C
					patch.SetVec(j, float64(x[(c*s.H+h+ky)*s.W+w+kx]))
				}
				sums.SymRankOne(sums, 1, patch)
				patches++
			}
		}
	}
	sums.ScaleSym(1/float64(patches), sums)
	return sums
}

// The whitening filters are orthogonal, the eigenvector of the largest eigenvalue
// first. On CIFAR-10 itself, they make the patches' values independent and of
// variance 1, but for the ε that keeps small ones small.
func TestWhitening(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("GRADLAB_DATA_DIR")
	if dir == "" && *update {
		t.Fatal("GRADLAB_DATA_DIR names no folder with CIFAR-10")
	}
	var moments *mat.SymDense
	if dir != "" {
		set, err := data.Open("cifar10", data.Options{Dir: dir, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		var b sgd.Batch
		if err := set.Train.Batch(sgd.Draw{N: 5000}, &b); err != nil {
			t.Fatal(err)
		}
		moments = secondMoments(b, set.Train.Sample().Shape)
	} else {
		t.Log("GRADLAB_DATA_DIR names no folder with CIFAR-10: only what does not need it is tested")
	}
	if *update {
		var e mat.EigenSym
		if !e.Factorize(moments, true) {
			t.Fatal("no eigenvectors")
		}
		var v mat.Dense
		e.VectorsTo(&v)
		var text strings.Builder
		for i, l := range slices.Backward(e.Values(nil)) {
			for j := range 12 {
				fmt.Fprintf(&text, " %.6g", v.At(j, i)/math.Sqrt(l+5e-4))
			}
			text.WriteByte('\n')
		}
		whiteningText = text.String()
		if err := os.WriteFile("whitening.txt", []byte(whiteningText), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	filters := whitening()
	if len(filters) != 12 {
		t.Fatalf("%d filters, want 12", len(filters))
	}
	flat := slices.Concat(filters...)
	if len(flat) != 144 {
		t.Fatalf("%d values, want 144", len(flat))
	}
	w := mat.NewDense(12, 12, flat)
	var gram, spread mat.Dense
	gram.Mul(w, w.T())
	for i := range 12 {
		for j := range 12 {
			if scale := math.Sqrt(gram.At(i, i) * gram.At(j, j)); i != j && math.Abs(gram.At(i, j)) > 1e-4*scale {
				t.Errorf("filters %d and %d have cosine %g", i, j, gram.At(i, j)/scale)
			}
		}
		if i > 0 && gram.At(i, i) < gram.At(i-1, i-1) {
			t.Errorf("filter %d is for a larger eigenvalue than filter %d", i, i-1)
		}
	}
	if moments == nil {
		return
	}
	spread.Mul(w, moments)
	spread.Mul(&spread, w.T())
	for i := range 12 {
		for j := range 12 {
			want := 0.0
			if i == j {
				want = 1 - 5e-4*gram.At(i, i) // λ/(λ + ε), as |filter|² is 1/(λ + ε)
			}
			if math.Abs(spread.At(i, j)-want) > 2e-3 {
				t.Errorf("whitened values %d and %d have second moment %g, want %g", i, j, spread.At(i, j), want)
			}
		}
	}
}

// The network starts as published: whitening frozen, convolutions as copies of their
// input, no scales in the batch norms, and a bias of the whitening that learns.
func TestAirbench94(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "airbench94", cifar)
	l := m.Layout()
	if _, err := m.Grad(t.Context(), p, randomBatch(sgd.Sample{Shape: cifar, Classes: 10}, 4)); err != nil {
		t.Fatal(err)
	}
	filters, frozen := l.View(p.Params, 0), l.View(p.Grad, 0)
	for i, v := range filters {
		if frozen[i] != 0 {
			t.Fatalf("frozen weight %d has gradient %g", i, frozen[i])
		}
		if other := filters[(i+144)%288]; v != -other || v == 0 {
			t.Fatalf("whitening weight %d is %g, its negative %g", i, v, other)
		}
	}
	var names []string
	for i, s := range l.Spans {
		if s.Role != sgd.Buffer {
			names = append(names, s.Name)
		}
		learns := slices.ContainsFunc(l.View(p.Grad, i), func(g float32) bool { return g != 0 })
		if i > 0 && !learns {
			t.Errorf("%s has no gradient", s.Name)
		}
		if s.Name == "conv3.weight" { // of 64 to 64 channels
			for row := range s.Rows {
				for col, v := range l.View(p.Params, i)[row*s.Cols : (row+1)*s.Cols] {
					want := float32(0)
					if col == 4*64+row {
						want = 1
					}
					if v != want {
						t.Fatalf("%s[%d,%d] is %g, want %g", s.Name, row, col, v, want)
					}
				}
			}
		}
	}
	want := strings.Fields("conv1.bias conv2.weight bn1.shift conv3.weight bn2.shift conv4.weight bn3.shift conv5.weight bn4.shift conv6.weight bn5.shift conv7.weight bn6.shift dense1.weight")
	if !slices.Equal(names, want) {
		t.Errorf("trainable are %v, want %v", names, want)
	}
}

// A look shifts with a reflected border and then mirrors, and an evaluation takes the
// mean over looks: with two it is the same for mirrored pictures, and more looks say
// something else.
func TestLooks(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 1, H: 3, W: 3}
	x, got := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, make([]float32, 9)
	for _, c := range []struct {
		look
		want []float32
	}{
		{look{mirror: true}, []float32{3, 2, 1, 6, 5, 4, 9, 8, 7}},
		{look{dx: -1, dy: -1}, []float32{5, 4, 5, 2, 1, 2, 5, 4, 5}},
		{look{dx: 1, dy: 1, mirror: true}, []float32{5, 6, 5, 8, 9, 8, 5, 6, 5}},
	} {
		if c.at(got, x, in); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	b := randomBatch(sgd.Sample{Shape: cifar, Classes: 10}, 20)
	mirrored := b
	mirrored.X = make([]float32, len(b.X))
	look{mirror: true}.at(mirrored.X, b.X, cifar)
	var losses []float64
	for _, looks := range []int{1, 2, 6} {
		m, p := newPass(t, fmt.Sprintf("airbench94(widths=[4,6,5],looks=%d,scale=3)", looks), cifar)
		s, err := m.Eval(p.Params, p.Scratch, b)
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Eval(p.Params, p.Scratch, mirrored)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(s.Sums[1]-r.Sums[1]) / s.Sums[1]; looks == 2 && d > 1e-6 || looks == 1 && d < 1e-4 {
			t.Errorf("%d looks: a loss of %v, of mirrored pictures %v", looks, s.Sums[1], r.Sums[1])
		}
		losses = append(losses, s.Sums[1])
	}
	if losses[0] == losses[1] || losses[1] == losses[2] || losses[2] == losses[0] {
		t.Errorf("losses of 1, 2 and 6 looks: %v", losses)
	}
}

// Without whitening the first convolution is trained, and without identity others begin
// with draws alone.
func TestAirbenchWithout(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "airbench94(whiten=false)", cifar)
	if n := m.Layout().Trainable(); n != 1971352+288 {
		t.Errorf("%d trainable values", n)
	}
	first := m.Layout().View(p.Params, 0)
	if bound := float32(1 / math.Sqrt(12)); slices.Max(first) > bound || slices.Min(first) < -bound {
		t.Error("first weights are not PyTorch's draws")
	}
	near := func(spec string) (ones int) {
		m, p := newPass(t, spec, cifar)
		for _, v := range m.Layout().View(p.Params, m.Layout().Find("conv2.weight")) {
			if v == 1 {
				ones++
			}
		}
		return ones
	}
	if a, b := near("airbench94(widths=[30,6,5])"), near("airbench94(widths=[30,6,5],identity=false)"); a != 24 || b != 0 {
		t.Errorf("%d and %d of the first weights are 1", a, b)
	}
	for _, spec := range []string{"airbench94(looks=3)", "airbench94(looks=0)"} {
		if _, err := Models.Parse(spec); err == nil || !strings.Contains(err.Error(), `"looks"`) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
