package compress

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// memoryCall is where spec text of a codec with a memory begins.
var memoryCall = regexp.MustCompile(`\b(feedback|ef21)\(`)

// several is what stands for several values of an option on a command line.
var several = regexp.MustCompile(`\b(?:choice|log|lin|double|range)\(([^,()]+),[^()]*\)`)

// quoted lists the codecs with a memory that text writes out, without those that
// leave something out ("…") or permit what would be refused.
func quoted(text string) (out []string) {
	for _, at := range memoryCall.FindAllStringIndex(text, -1) {
		depth, end := 1, at[1]
		for ; end < len(text) && depth > 0; end++ {
			depth += map[byte]int{'(': 1, ')': -1}[text[end]]
		}
		if spec := text[at[0]:end]; depth == 0 && !strings.ContainsAny(spec, "…\n \"%+") && !strings.Contains(spec, "unchecked=true") {
			out = append(out, spec)
		}
	}
	return out
}

// Every codec that a comment, a page, a recipe or a help text puts inside a memory
// is accepted there, on tensors of any size.
func TestRecommendedInsideFeedbackIsAccepted(t *testing.T) {
	blocks := []Block{{Rows: 1, Cols: 1}, {Rows: 1, Cols: 10}, {Rows: 16, Cols: 27}, {Rows: 10, Cols: 52}, {Rows: 64, Cols: 576}, {Rows: 1000, Cols: 2049}}
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := e.Name(); name == "testdata" || name == "examples" || name != ".." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go":
			if strings.HasSuffix(path, "_test.go") {
				return nil
			}
		case ".md", ".yaml":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		for _, spec := range quoted(string(text)) {
			found[several.ReplaceAllString(spec, "$1")] = path // of several values, the first
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 30 {
		t.Fatalf("only %d codecs found: %v", len(found), found)
	}
	for spec, path := range found {
		f, err := Parse(spec)
		if err != nil {
			if !strings.Contains(spec, "every") { // the codec of docs/codecs.md, which is not here
				t.Errorf("%s has %q: %v", path, spec, err)
			}
			continue
		}
		for _, b := range blocks {
			if _, err := f.New(b); err != nil {
				t.Errorf("%s has %q: %v", path, spec, err)
				break
			}
		}
	}
}

// Symmetric rounding to nearest is a contraction at any length, and the bound is
// met: 0.72277 at 4 bits in buckets of 512, of which the witness shows 0.7228.
// Rounding to nearest over minimum and maximum is none there, and a vector of −1,
// 1 and zeros says so.
func TestNearestRoundingIsAContraction(t *testing.T) {
	b := Block{Rows: 1, Cols: 512}
	shown := func(f Uniform) float64 {
		c, err := f.New(b)
		if err != nil {
			t.Fatal(err)
		}
		x := f.Witness(b)
		p, err := c.Append(nil, x, Step{})
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float32, len(x))
		if err := c.AddTo(out, 1, p, From{}); err != nil {
			t.Fatal(err)
		}
		var off, all float64
		for i, v := range x {
			e := float64(v) - float64(out[i])
			off, all = off+e*e, all+float64(v)*float64(v)
		}
		return off / all
	}
	for bits := 2; bits <= 8; bits++ {
		f := Uniform{Bits: bits, Range: "symmetric", Round: "nearest", Bucket: 512}
		l := float64(int(1)<<bits - 2)
		want := 1 / (1 + 511/(l*l))
		if delta := f.Claims(b).Delta; delta < want*(1-1e-9) || delta > want*(1+1e-9) {
			t.Errorf("%d bits: claims delta %v, want %v", bits, delta, want)
		}
		if e := shown(f); e > 1-want || e < (1-want)*(1-1e-4) {
			t.Errorf("%d bits: the witness shows %v, the bound is %v", bits, e, 1-want)
		}
	}
	f := Uniform{Bits: 4, Range: "minmax", Round: "nearest", Bucket: 512}
	if e := shown(f); e < 1 || f.Claims(b).Delta != 0 {
		t.Errorf("minmax, 4 bits: shows %v and claims delta %v; want more than 1 and no claim", e, f.Claims(b).Delta)
	}
	for _, spec := range []string{"intsum(bits=4,round=nearest)", "uniform(bits=4,range=symmetric,round=nearest)", "intsum(bits=2,round=nearest,bucket=0)", "float8(format=dynamic,bucket=0)", "eden(bits=1,scale=norm)"} {
		big := Block{Rows: 1 << 12, Cols: 1 << 13}
		if c, _ := ClaimsOf(Families.MustParse(spec), big); c.Delta <= 0 {
			t.Errorf("%s claims no contraction on %d elements", spec, big.Len())
		}
	}
}
