package ask

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
)

const small = "data: digits\nmodel: mlp(hidden=[16])\nsteps: 12\nbatch: 8\nworkers: 3\nnet: sim\neval_every: 4\n"

// mustRuns parses a recipe and resolves its runs.
func mustRuns(t testing.TB, text string, overrides ...string) []config.Run {
	t.Helper()
	r, err := config.ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(overrides, false)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// execute makes the one run of a small recipe below dir.
func execute(t testing.TB, dir string, overrides ...string) (*experiments.Result, error) {
	t.Helper()
	return experiments.Execute(context.Background(), mustRuns(t, small, overrides...)[0], experiments.Options{Recipe: "test", Out: dir})
}

func mustExecute(t testing.TB, overrides ...string) *experiments.Result {
	t.Helper()
	r, err := execute(t, t.TempDir(), overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// halfSlow is a codec such as a user may enrol: half the bytes, and in slowTable it
// encodes and decodes 10 MB of gradient a second.
type halfSlow struct{ compress.BFloat16 }

var _ = compress.Families.Add("halfslow", "bfloat16, for tests of what codecs are billed", halfSlow{})

// slowTable is a file of rates by which halfslow makes 10 MB/s and raw and bf16
// next to nothing, on a core of 20 GFLOP/s.
func slowTable(t *testing.T) string {
	t.Helper()
	table := &hardware.CodecTable{Name: "slow", Processor: "none", FLOPS: 2e10, Memory: 1e10}
	for codec, ns := range map[string]float64{"halfslow": 400, "raw": 0.1, "bf16": 0.2} {
		table.Rates = append(table.Rates, hardware.CodecRate{Codec: codec, Block: "any", Elements: []int{1}, Encode: []float64{ns}, Decode: []float64{ns}})
	}
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, table.Text(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
