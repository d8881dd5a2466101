package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// The commands of docs/questions.md run as they stand, one after the other.
func TestQuestions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/questions.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("a,b,class\n")
	for i := range 60 {
		fmt.Fprintf(&rows, "%d.5,%d,%s\n", i%7-3, i%3, []string{"cat", "dog", "cow"}[i%3])
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.csv"), []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllSubmatch(page, -1) {
		for line := range strings.Lines(string(block[1])) {
			w := words(line)
			if len(w) < 2 || w[0] != "gradlab" {
				t.Fatalf("%q is no command of gradlab", line)
			}
			w[0] = program.Gradlab
			program.StartLine(t, dir, nil, w...).Expect(0)
			ran++
		}
	}
	if ran < 12 {
		t.Errorf("%d commands on the page", ran)
	}
	for _, want := range []string{"mine.html", "figures", "runs.csv", "mine.yaml", "mine/go.mod"} {
		if _, err := os.Stat(filepath.Join(dir, want)); err != nil {
			t.Error(err)
		}
	}
}

// The codec that init writes is that of docs/codecs.md under another name, in a module that
// resolves as it is written. With the tag long it is built, tested and run as the command says.
func TestInitCodec(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../examples/codec/own/main.go")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.ParseFiles("init/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := tmpl.Execute(&got, map[string]string{"Command": "own", "Name": "every", "Type": "Every"}); err != nil || got.String() != string(want) {
		t.Errorf("init/main.go.txt is not examples/codec/own/main.go under another name: %v\n%s", err, got.String())
	}
	dir := t.TempDir()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := program.StartLine(t, dir, nil, program.Gradlab, "init", "codec", "my_codec", "--checkout", checkout)
	p.Expect(0)
	in := func(line ...string) string {
		t.Helper()
		c := exec.Command(line[0], line[1:]...)
		c.Dir = filepath.Join(dir, "my_codec")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
		return string(out)
	}
	if out := in("go", "list", "-mod=readonly", "-deps", "-test", "."); !strings.Contains(out, "example.org/my_codec") || !strings.Contains(out, "github.com/gradlab/gradlab/compress/compresstest") {
		t.Error(out)
	}
	for name, c := range map[string]struct{ line, want string }{
		"there already":   {"init codec my_codec --checkout " + checkout, "my_codec: file exists"},
		"a codec of ours": {"init codec topk", `there is a codec "topk" already`},
		"no name":         {"init codec", "init wants what to write and a name"},
		"a bad name":      {"init codec My-Codec", "small letters, digits and _"},
		"no checkout":     {"init codec other --checkout .", "its go.mod is not that of module"},
		"a bad key":       {"init study other codec=topq", `no codec named "topq"`},
		"no key":          {"init study other codec", `"codec" is not key=value`},
	} {
		p := program.StartLine(t, dir, nil, append([]string{program.Gradlab}, strings.Fields(c.line)...)...)
		if <-p.Done; !strings.Contains(p.Err.String(), c.want) || p.Cmd.ProcessState.ExitCode() == 0 {
			t.Errorf("%s: %s", name, p.Says())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if !patience.Long { // it compiles and links two programs
		return
	}
	in("go", "test", ".")
	if out := in("go", "run", ".", "codec", "check", "my_codec"); !strings.Contains(out, "my_codec") {
		t.Error(out)
	}
	if out := in("go", "run", ".", "run", "quickstart", "codec=raw,my_codec", "device.codec=free", "steps=4", "epochs=0", "eval_every=4", "--no-plot"); !strings.Contains(out, "my_codec") {
		t.Error(out)
	}
}
