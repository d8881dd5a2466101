package external_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/external"
)

// echo starts testdata/echo.py on samples of n values.
func echo(t *testing.T, how, values string, n int) (*external.Model, error) {
	t.Helper()
	command := []string{program.Python(t, how), "testdata/echo.py", how}
	m, err := external.Open(context.Background(), external.Options{Command: command, Values: values, Shape: sgd.Shape{C: 1, H: 1, W: n}})
	if err == nil {
		t.Cleanup(m.Close)
	}
	return m, err
}

// special are values that rounding may get wrong, and common ones: so many that numpy
// takes them in several stretches.
func special() []float32 {
	bits := []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0x17fff, 0x18000, 0x18001, 0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000,
		0x007fffff, 0x00800000, 0x3f808000, 0x3f818000, 0x3f817fff}
	var x []float32
	for _, b := range bits {
		x = append(x, math.Float32frombits(b), math.Float32frombits(b|1<<31))
	}
	k := rng.New(1, "values")
	for i := range uint64(70_000) {
		x = append(x, float32(k.Norm(i)))
	}
	return x
}

// With values=bf16 parameters and gradients are rounded as f32.ToBF16 rounds, on either
// side, in numpy and in PyTorch; first parameters are not rounded. With f32 nothing is.
func TestValuesAreRounded(t *testing.T) {
	given := special()
	n := len(given)
	params := slices.Concat(given[100:], given[:100], make([]float32, n))
	for i, v := range params {
		if v-v != 0 { // the square of an infinity has no use here
			params[i] = 1
		}
	}
	for _, how := range patience.Few(1, []string{"numpy", "torch"}) {
		for _, values := range []string{"f32", "bf16"} {
			t.Run(how+" "+values, func(t *testing.T) {
				m, err := echo(t, how, values, n)
				if err != nil {
					t.Fatal(err)
				}
				first, g := make([]float32, 2*n), make([]float32, 2*n)
				m.Init(first, 1)
				if first[0] != 1.0/3 || first[2*n-1] != 1.0/3 {
					t.Errorf("first parameters %v, %v", first[0], first[2*n-1])
				}
				want := slices.Concat(params[:n], given)
				if values == "bf16" {
					f32.RoundBF16(want)
				}
				for pass := range 2 { // the memory has grown before the second
					b := sgd.Batch{N: 1, X: given, Y: []int32{0}}
					if _, err := m.Grad(context.Background(), sgd.Pass{Params: params, Grad: g}, b); err != nil {
						t.Fatal(err)
					}
					for i := range g {
						if math.Float32bits(g[i]) != math.Float32bits(want[i]) {
							t.Fatalf("pass %d, value %d: %x, want %x", pass, i, math.Float32bits(g[i]), math.Float32bits(want[i]))
						}
					}
				}
				// A NaN stays one, whatever of its payload is lost.
				given := slices.Clone(given)
				for i, b := range []uint32{0x7f800001, 0xff800001, 0x7fc00000, 0x7fffffff, 0x7f8fffff} {
					given[i] = math.Float32frombits(b)
				}
				if _, err := m.Grad(context.Background(), sgd.Pass{Params: params, Grad: g}, sgd.Batch{N: 1, X: given, Y: []int32{0}}); err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if g[n+i] == g[n+i] {
						t.Errorf("NaN %d came as %v", i, g[n+i])
					}
				}
			})
		}
	}
}

// A program that exchanges float32 alone is refused, with what to do.
func TestValuesThatAProgramLacks(t *testing.T) {
	if _, err := echo(t, "old", "f32", 4); err != nil {
		t.Errorf("with float32: %v", err)
	}
	if _, err := echo(t, "old", "bf16", 4); err == nil || !strings.Contains(err.Error(), "it exchanges float32 only: leave values=bf16 out of external(...)") {
		t.Error(err)
	}
	if _, err := echo(t, "numpy", "fp16", 4); err == nil || !strings.Contains(err.Error(), `want f32 or bf16, not "fp16"`) {
		t.Error(err)
	}
}
