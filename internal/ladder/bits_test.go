package ladder

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

var update = flag.Bool("update", false, "write testdata/bits.txt anew")

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// result is what must be the same everywhere.
type result struct {
	Run      string  `json:"run"`
	Count    int     `json:"params"`
	Params   string  `json:"params_sha256"`
	BytesUp  int64   `json:"bytes_up"`
	Seconds  float64 `json:"virtual_seconds"`
	Accuracy float64 `json:"accuracy"`
	Loss     float64 `json:"loss"`
}

func (r result) String() string {
	return fmt.Sprintf("%s: %.16s %d bytes, %v s, accuracy %v, loss %v", r.Run, r.Params, r.BytesUp, r.Seconds, r.Accuracy, r.Loss)
}

// train has a program train a recipe, and returns the results in order.
func train(t testing.TB, gradlab []string, recipe string) (all []result) {
	t.Helper()
	cmd := exec.Command(gradlab[0], append(gradlab[1:len(gradlab):len(gradlab)], "run", recipe, "--quiet", "--no-plot", "--no-baseline", "--json", "--out", t.TempDir())...)
	cmd.Env = append(os.Environ(), "GRADLAB_CONFIG=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", recipe, err, stderr.String())
	}
	for line := range strings.Lines(stdout.String()) {
		var r result
		if json.Unmarshal([]byte(line), &r) == nil && r.Params != "" {
			all = append(all, r)
		}
	}
	return all
}

const (
	recipe = "testdata/bits.yaml"
	golden = "testdata/bits.txt"
)

// bits is what the runs of the recipe end with, a line each.
func bits(t testing.TB, gradlab []string) string {
	var out strings.Builder
	for _, r := range train(t, gradlab, recipe) {
		fmt.Fprintln(&out, r)
	}
	return out.String()
}

// compare fails with the lines that differ.
func compare(t *testing.T, got, want string) {
	t.Helper()
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			t.Errorf("\ngot  %s\nwant %s", x, y)
		}
	}
}

// kept is the golden file.
func kept(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Small runs end with the same parameters, bytes and times on every processor.
func TestRunsHaveTheirBits(t *testing.T) {
	got := bits(t, []string{program.Gradlab})
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, got, kept(t))
}
