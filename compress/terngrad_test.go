package compress

import "testing"

// What is clipped is sent, each time: at 1.3 or 2.3 times the scale as well.
func TestTernGradSendsWhatItClips(t *testing.T) {
	x := make([]float32, 100)
	for i := range x {
		x[i] = 0.5
	}
	for _, large := range []float32{0.7, 1, 1.5, -2.5, 40} {
		x[7] = large
		c, err := TernGrad{Clip: 0.01}.New(Block{Rows: 1, Cols: len(x), World: 1, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		for step := range 50 {
			p, err := c.Append(nil, x, Step{N: step})
			if err != nil {
				t.Fatal(err)
			}
			out := make([]float32, len(x))
			if err := c.AddTo(out, 1, p, From{}); err != nil {
				t.Fatal(err)
			}
			if scale := formatF32.get(p, 0); out[7] != scale && out[7] != -scale || out[7]*large < 0 {
				t.Fatalf("%v, clipped to %v, became %v", large, scale, out[7])
			}
		}
	}
}

// A bucket without spread, such as a single element, is sent as it is: c·σ is 0
// there, and what is clipped to it would never be learned.
func TestTernGradSendsWhatHasNoSpread(t *testing.T) {
	for _, x := range [][]float32{{0.3}, {-0.3}, {0.3, 0.3, 0.3}, {-1e-30, -1e-30}} {
		for _, bucket := range []int{0, 1} {
			c, err := TernGrad{Clip: 2.5, Bucket: bucket}.New(Block{Rows: 1, Cols: len(x), World: 1, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.Append(nil, x, Step{})
			if err != nil {
				t.Fatal(err)
			}
			out := make([]float32, len(x))
			if err := c.AddTo(out, 1, p, From{}); err != nil {
				t.Fatal(err)
			}
			for i, v := range out {
				if v != x[i] {
					t.Errorf("%v in buckets of %d became %v", x, bucket, out)
					break
				}
			}
		}
	}
}
