package lrschedule_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gradlab/gradlab/lrschedule"
)

// Rates are those of PyTorch's schedulers, update by update: testdata/pytorch.py
// made them. PyTorch computes some by recurrence, so the last bits differ.
func TestPyTorch(t *testing.T) {
	for text, want := range pytorch(t) {
		r := lrschedule.Run{Batch: 256, StepsPerEpoch: 10, Epochs: float64(len(want)) / 10, Steps: len(want)}
		f := parse(t, text, r)
		for n, w := range want {
			if got := f(at(r, n)); math.Abs(got-w) > 1e-12 {
				t.Errorf("%s, update %d: %.17g, PyTorch %.17g", text, n, got, w)
			}
		}
	}
}

// pytorch has PyTorch's rates by the spec of a schedule.
func pytorch(t *testing.T) (golden map[string][]float64) {
	t.Helper()
	b, err := os.ReadFile("testdata/pytorch.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

// The rows of MLPerf's reference convergence points for ResNet-50 with LARS:
// batch, epochs, base rate and epochs of warm-up. At every update the rate is that
// of the reference's formula, written here once more and otherwise, to the last
// bits of what one more rounding can do.
func TestMLPerf(t *testing.T) {
	for _, row := range []struct {
		batch        int
		epochs       float64
		rate, warmup float64
	}{
		{1632, 35, 7.4, 2}, {3264, 35, 10.5, 2}, {4096, 40, 10, 5}, {8192, 42, 17, 5}, {13056, 45, 12.8, 9},
		{32768, 56, 21.2, 16}, {49152, 68, 19.405, 24}, {58880, 80, 23.246, 29}, {65536, 85, 24.699, 31},
	} {
		perEpoch := 1281167 / float64(row.batch)
		r := lrschedule.Run{Batch: row.batch, StepsPerEpoch: perEpoch, Epochs: row.epochs, Steps: int(row.epochs * perEpoch)}
		f, err := lrschedule.MLPerf{LR: row.rate, Warmup: row.warmup, End: 1e-4, Power: 2}.New(r)
		if err != nil {
			t.Fatal(err)
		}
		w := int(row.warmup * perEpoch)
		for n := range r.Steps {
			want := row.rate * float64(n) / float64(w)
			if n > w {
				left := float64(r.Steps+1-n) / float64(r.Steps-w+1)
				want = (row.rate-1e-4)*left*left + 1e-4
			}
			if got := f(at(r, n)); math.Abs(got-want) > 4e-15*row.rate {
				t.Fatalf("batch %d, update %d of %d: %v, want %v", row.batch, n, r.Steps, got, want)
			}
		}
		if top := f(at(r, w)); top != row.rate {
			t.Errorf("batch %d: %v at the end of the warm-up, want %v", row.batch, top, row.rate)
		}
	}
}

// Akiba's rates at batch 32,768 on 1,024 GPUs: 12.8 scaled, a half of it first.
func TestAkiba(t *testing.T) {
	r := imagenet(32768)
	f := parse(t, "akiba", r)
	for e, want := range map[float64]float64{0: 6.4, 39.99: 6.4, 40: 0.96, 70: 0.128, 85: 0.0128, 89.9: 0.0128} {
		if got := f(epoch(r, e)); math.Abs(got-want) > 1e-15 {
			t.Errorf("epoch %v: %v, want %v", e, got, want)
		}
	}
}
