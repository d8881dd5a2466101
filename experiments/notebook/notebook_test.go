package notebook

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

func cells(t *testing.T, sources ...string) *Notebook {
	t.Helper()
	n := &Notebook{Format: 4, Minor: 5, Metadata: json.RawMessage("{}")}
	for _, s := range sources {
		n.Cells = append(n.Cells, &Cell{Type: "code", Source: Lines(s)})
	}
	return n
}

func write(t *testing.T, n *Notebook) string {
	t.Helper()
	b, err := n.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.ipynb")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The committed notebooks are as the runner writes them, and have outputs.
func TestCommittedNotebooks(t *testing.T) {
	paths, err := filepath.Glob("../../notebooks/*.ipynb")
	if err != nil || len(paths) != 7 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Decode(p, b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := n.Encode()
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s is not as gradlab notebook run writes it: %v", p, err)
		}
		_, bodies, err := program(p, n)
		if err != nil {
			t.Fatal(err)
		}
		pictures := 0
		for _, i := range bodies {
			if len(n.Cells[i].Outputs) == 0 {
				t.Errorf("%s, cell %d shows nothing", p, i+1)
			}
			for _, o := range n.Cells[i].Outputs {
				if len(o.Data["image/svg+xml"]) > 0 {
					pictures++
				}
			}
		}
		if pictures == 0 {
			t.Errorf("%s shows no figure", p)
		}
	}
}

func TestProgram(t *testing.T) {
	n := cells(t,
		"!*go mod edit -replace x=y\nimport (\n\t\"fmt\"\n\tm \"math\"\n\t\"math/rand/v2\"\n\t\"strings\"\n)\n\n// Twice doubles.\nfunc Twice(x int) int { return 2 * x }",
		"%%\nfmt.Println(Twice(21))",
		"type point struct{ x float64 }\n\nvar origin = point{m.Pi}\n\n%%\nfmt.Println(origin.x > 3, rand.IntN(1))")
	n.Cells = append(n.Cells, &Cell{Type: "markdown", Source: "%%"})
	source, bodies, err := program("test", n)
	if err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 2 || bodies[0] != 1 || bodies[1] != 2 {
		t.Errorf("bodies %v", bodies)
	}
	s := string(source)
	for _, want := range []string{"// Twice doubles.\nfunc Twice", `m "math"`, `"math/rand/v2"`, "func cell2() {\n\tfmt.Println(origin", `case "1":`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in\n%s", want, s)
		}
	}
	if strings.Contains(s, "strings") || strings.Contains(s, "go mod") {
		t.Errorf("an import without use, or a line for the kernel, is left in\n%s", s)
	}
	if _, _, err := program("test", cells(t, "func {")); err == nil || !strings.Contains(err.Error(), "cell 1") {
		t.Errorf("the error does not name the cell: %v", err)
	}
}

func TestRunner(t *testing.T) {
	if !patience.Long {
		t.Skip("builds a program")
	}
	show := `import (
	"encoding/gob"
	"os"
	"fmt"
)

func show(kind string, v any) {
	f, _ := os.OpenFile(os.Getenv("GONB_PIPE"), os.O_WRONLY, 0)
	gob.NewEncoder(f).Encode(struct {
		Data, Metadata map[string]any
		DisplayID      string
	}{Data: map[string]any{kind: v}})
}
`
	n := cells(t, show+"%%\nfmt.Println(\"hello\")\nos.WriteFile(\"kept\", []byte(\"by the notebook\"), 0o600)",
		"%%\nb, err := os.ReadFile(\"kept\")\nfmt.Println(string(b), err)\nshow(\"text/markdown\", \"**bold** <&>\\nline\")",
		"%%\nshow(\"image/png\", []byte{1, 2, 3})")
	path := write(t, n)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ran, err := Runner{Root: "../.."}.Run(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ran[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\"hello\\n\"", "\"by the notebook <nil>\\n\"", "\"**bold** <&>\\n\",\n       \"line\"", `"image/png": "AQID"`, `"execution_count": 3`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	if d := Compare(ran[0], ran[0]); len(d) > 0 {
		t.Error(d)
	}
	if d := Compare(n, ran[0]); len(d) != 3 {
		t.Errorf("against no outputs: %v", d)
	}
	_, err = Runner{Root: "../.."}.Run(ctx, write(t, cells(t, "import \"os\"\n\n%%\nos.Exit(3)")))
	if err == nil || !strings.Contains(err.Error(), "cell 1") {
		t.Errorf("a cell that fails: %v", err)
	}
	if _, err := (Runner{Root: "../.."}).Run(ctx, write(t, cells(t, "%%\nundefined()"))); err == nil {
		t.Error("a cell that does not compile")
	}
}

func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		was, is string
		same    bool
	}{
		{"accuracy 0.9805 in 1.7s", "accuracy 0.9703 in 1.6s", true},
		{"│ raw │ 98 % │\n├─────┤", "│ raw  │ 98.5 % │\n├──────────┤", true},
		{"| --- | ---:|", "| ---- | ------:|", true},
		{"0.001", "0.02", true}, // both are little
		{"2.7 GB", "2.7 MB", false},
		{"1.0e9", "2.0e9", false},
		{"held out, holds", "held out, MISSED", false},
		{"a b", "a b c", false},
		{"100", "130", false},
	} {
		if d := differs(c.was, c.is); (d == "") != c.same {
			t.Errorf("%q and %q: %q", c.was, c.is, d)
		}
	}
}

func TestChangingCellsMayChange(t *testing.T) {
	n, m := cells(t, "x"), cells(t, "x")
	for i, c := range []*Cell{n.Cells[0], m.Cells[0]} {
		c.Outputs = []Output{{Type: "stream", Name: "stdout", Text: Lines([]string{"one", "two"}[i])}}
	}
	if d := Compare(n, m); len(d) != 1 {
		t.Error(d)
	}
	m.Cells[0].Metadata = json.RawMessage(`{"tags": ["changing"]}`)
	if d := Compare(n, m); len(d) != 0 {
		t.Error(d)
	}
	m.Cells[0].Outputs = nil
	if d := Compare(n, m); len(d) != 1 {
		t.Error(d)
	}
}

// What is decoded can be encoded, and is then the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"nbformat":4,"cells":[{"cell_type":"code","source":"%%\nx()","outputs":[{"output_type":"stream","text":["a"]}]},null]}`))
	f.Add([]byte(`{"nbformat":4,"cells":[{"cell_type":"raw","source":["a\n","b"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Decode("fuzz", b)
		if err != nil {
			return
		}
		once, err := n.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode("fuzz", once)
		if err != nil {
			t.Fatal(err)
		}
		if d := Compare(n, m); len(d) > 0 {
			t.Fatal(d)
		}
		twice, err := m.Encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("encoded again, it differs: %v\n%s\n%s", err, once, twice)
		}
		_, _, _ = program("fuzz", n)
	})
}
