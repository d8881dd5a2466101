package compresstest_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var update = flag.Bool("update", false, "rewrite testdata/golden.txt")

const goldenFile = "testdata/golden.txt"

var goldenLengths = []int{0, 1, 7, 65, 4097}

// goldenVector is made of integers and powers of two only, so that it is the
// same on every machine.
func goldenVector(d, step int) []float32 {
	k := rng.New(1, "golden").With(uint64(d)).With(uint64(step))
	x := make([]float32, d)
	for i := range x {
		x[i] = float32(math.Ldexp(float64(int64(k.Uint64(uint64(i)))>>42), -22-i%9))
	}
	return x
}

// golden is the line of one codec and length: its third payload and the hash of
// what that decodes to. Long payloads are hashed.
func golden(f compress.Family, d int) (line string, payload []byte, err error) {
	b := compress.Block{Name: "golden", Rows: 1, Cols: d, Rank: 1, World: 3, Peer: -1, Seed: 7}
	c, err := f.New(b)
	if err != nil {
		return "", nil, err
	}
	for n := range 3 {
		if payload, err = c.Append(payload[:0], goldenVector(d, n), compress.Step{N: n, Seed: 7}); err != nil {
			return "", nil, err
		}
	}
	out := make([]float32, d)
	if err := c.AddTo(out, 1, payload, compress.From{Rank: 1, Step: 2}); err != nil {
		return "", nil, err
	}
	text := hex.EncodeToString(payload)
	if len(payload) > 150 {
		text = fmt.Sprintf("%d:%x", len(payload), sha256.Sum256(payload))
	}
	sum := sha256.Sum256(f32.AppendBytes(nil, out))
	return fmt.Sprintf("%s\t%d\t%s\t%x", compress.Spec(f), d, text, sum[:8]), payload, nil
}

// Payloads are a format: once written to a file or sent by an older binary they
// must mean the same for ever. So is what ranks put into an exchange of a codec's own.
func TestGolden(t *testing.T) {
	var lines []string
	for _, spec := range compresstest.Specs() {
		for _, d := range goldenLengths {
			line, _, err := golden(compress.Families.MustParse(spec), d)
			if err != nil {
				t.Fatalf("%s on %d elements: %v", spec, d, err)
			}
			lines = append(lines, line)
		}
	}
	for _, spec := range compresstest.Specs() {
		sum, err := compresstest.Exchanged(compress.Families.MustParse(spec), 4100, func(step, rank int) []float32 { return goldenVector(4100, 10*step+rank) })
		if err != nil {
			t.Fatalf("%s, exchanged: %v", spec, err)
		}
		if sum != nil {
			lines = append(lines, fmt.Sprintf("%s\texchanged\t%x", spec, sum))
		}
	}
	slices.Sort(lines)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have := map[string]bool{}
	file, err := os.Open(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		have[s.Text()] = true
	}
	for _, line := range lines {
		if !have[line] {
			spec, rest, _ := strings.Cut(line, "\t")
			t.Errorf("%s: the payload changed, or has no golden vector yet (go test -update): %s", spec, rest)
		}
	}
}

// FuzzDecode feeds any bytes to every codec.
func FuzzDecode(f *testing.F) {
	specs := compresstest.Specs()
	for i, spec := range specs {
		for _, d := range goldenLengths[:4] {
			_, payload, err := golden(compress.Families.MustParse(spec), d)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), uint16(d), payload)
		}
	}
	for _, c := range corpus(f) {
		f.Add(uint8(slices.Index(specs, c.spec)), uint16(c.d), c.payload)
	}
	f.Fuzz(func(t *testing.T, which uint8, d uint16, payload []byte) {
		spec := specs[int(which)%len(specs)]
		if err := compresstest.Decode(compress.Families.MustParse(spec), int(d)%2048, payload); err != nil {
			t.Errorf("%s on %d elements: %v", spec, d%2048, err)
		}
	})
}

// found is a payload that a codec once reacted to wrongly.
type found struct {
	spec    string
	d       int
	payload []byte
}

// corpus is the payloads that fuzzing found: a line each of spec, length and bytes,
// so that a codec more in the list does not turn them over to another one.
func corpus(t testing.TB) (out []found) {
	text, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var c found
		var digits string
		if _, err := fmt.Sscan(line, &c.spec, &c.d, &digits); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if c.payload, err = hex.DecodeString(digits); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !slices.Contains(compresstest.Specs(), c.spec) {
			t.Fatalf("%q: the suite has no such codec", line)
		}
		out = append(out, c)
	}
	return out
}

// What fuzzing found once stays mended.
func TestCorpus(t *testing.T) {
	for _, c := range corpus(t) {
		if err := compresstest.Decode(compress.Families.MustParse(c.spec), c.d, c.payload); err != nil {
			t.Errorf("%s on %d elements: %v", c.spec, c.d, err)
		}
	}
}
