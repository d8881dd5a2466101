package reproduce

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// madeCIFAR is a folder with a CIFAR-10 of so many pictures of noise.
func madeCIFAR(t *testing.T, train, test int) string {
	dir := t.TempDir()
	for name, n := range map[string]int{"data_batch_1.bin": train, "test_batch.bin": test} {
		var b []byte
		key := rng.New(1, name)
		for i := range n {
			b = append(b, byte(i%10))
			for k := range 3072 {
				b = append(b, byte(key.With(uint64(i)).Uint64(uint64(k))))
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "cifar10"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cifar10", name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Alternating flip shows every picture both ways in two epochs, and convolutions begin by
// passing inputs on; without either its point turns red.
func TestAirbenchLawsAreJudged(t *testing.T) {
	t.Parallel()
	dir := madeCIFAR(t, 600, 20)
	for without, want := range map[string]int{"": 0, "alternating flip": 1, "identity": 1} {
		lab := &Lab{Without: without, Runs: experiments.Options{Places: config.Places{Dir: dir, Shelf: &config.Shelf{}}}}
		if err := lab.without(Airbench94{}); err != nil {
			t.Fatal(err)
		}
		r := &Report{}
		if err := lab.bothWays(r); err != nil {
			t.Fatal(err)
		}
		if err := lab.passedOn(r); err != nil {
			t.Fatal(err)
		}
		if r.Failed() != want {
			t.Errorf("without %q: %+v", without, r.Points)
		}
	}
}

// Without a mechanism the run with all parts is the run that it is compared with, so that
// there is no difference, and the point is missed.
func TestAirbenchWithoutAMechanismIsTheOtherSide(t *testing.T) {
	t.Parallel()
	for _, a := range []airbench{quickAirbench, partsAirbench, wholeAirbench} {
		made := func(more ...string) config.Config {
			c := config.Default()
			for _, kv := range append(a.keys(), more...) {
				key, value, _ := strings.Cut(kv, "=")
				if err := c.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
			r, err := c.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			return r.Config()
		}
		other := map[string]config.Config{
			"whitening": made(a.model(",whiten=false")), "identity": made(a.model(",identity=false")),
			"alternating flip": made("data=cifar10(translate=2,border=reflect,flip=random)"),
		}
		for _, m := range (Airbench94{}).Mechanisms() {
			less := made(m.Off(made())...)
			if less.Hash() != other[m.Name].Hash() || less.Hash() == made().Hash() {
				t.Errorf("without %s %s is trained on %s", m.Name, less.Model, less.Data)
			}
			for name, c := range other { // nothing is taken out twice
				made(m.Off(c)...)
				if name == m.Name && len(m.Off(c)) > 0 {
					t.Errorf("%s is taken out of what is without it", name)
				}
			}
		}
	}
}

// What PyTorch is given are the samples as they are read.
func TestExportedSamples(t *testing.T) {
	t.Parallel()
	a := quickAirbench
	a.train, a.test = 510, 20
	ds, err := a.open(config.Places{Dir: madeCIFAR(t, 600, 20)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "train")
	if err := export(ds.Train, path); err != nil {
		t.Fatal(err)
	}
	var b sgd.Batch
	if err := ds.Train.Batch(sgd.Draw{First: 505, N: 2}, &b); err != nil {
		t.Fatal(err)
	}
	x, err := os.ReadFile(path + ".x")
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(path + ".y")
	if err != nil {
		t.Fatal(err)
	}
	if len(x) != 510*3072*4 || len(y) != 510*4 {
		t.Fatalf("%d and %d bytes", len(x), len(y))
	}
	at := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:])) }
	if at(505*3072+17) != b.X[17] || at(506*3072+3071) != b.X[2*3072-1] || !bytes.Equal(y[505*4:507*4], []byte{byte(b.Y[0]), 0, 0, 0, byte(b.Y[1]), 0, 0, 0}) {
		t.Error("other samples than those that are read")
	}
}
