package arch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// pasted is a file that CONTRIBUTING.md tells its reader to make.
var pasted = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```go\n(.*?)```")

// CONTRIBUTING.md's codec works as it is pasted: its files, put where the page says,
// pass the commands that the page shows. An overlay puts them there, so that the tree
// stays as it is; the golden file is written in a copy of testdata.
func TestContributing(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for n, m := range pasted.FindAllSubmatch(page, -1) {
		to, from := filepath.Join(root, string(m[1])), filepath.Join(dir, fmt.Sprint(n)+".go")
		if _, err := os.Stat(to); err == nil {
			t.Fatalf("%s is there already; the page tells its reader to write it", m[1])
		}
		if err := os.WriteFile(from, m[2], 0o644); err != nil {
			t.Fatal(err)
		}
		replace[to] = from
	}
	if len(replace) != 2 {
		t.Fatalf("%d files to paste, want a codec and its formula", len(replace))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(in, name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = in
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	suite, home := filepath.Join(dir, "suite"), filepath.Join(dir, "home")
	if err := os.CopyFS(filepath.Join(home, "testdata"), os.DirFS("../../compress/compresstest/testdata")); err != nil {
		t.Fatal(err)
	}
	run(root, "go", "test", "-overlay", overlay, "-ldflags=-s -w", "-c", "-o", suite, "./compress/compresstest")

	_, commands, _ := strings.Cut(string(page), "<!-- commands: each is run by TestContributing -->\n```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	ran := 0
	for line := range strings.Lines(commands) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(strings.ReplaceAll(line, "'", "")) // no argument has a space
		ran++
		switch {
		case slices.Equal(words[:3], []string{"go", "test", "./compress/compresstest"}):
			for n, w := range words {
				if w == "-run" || w == "-update" {
					words[n] = strings.Replace(w, "-run", "-test.run", 1)
				}
			}
			out := run(home, suite, append(words[3:], "-test.v")...)
			if !strings.Contains(out, "--- PASS") {
				t.Errorf("%s ran no test:\n%s", line, out)
			}
		case words[1] == "generate":
			continue // writes into the tree; package cli tests what is generated
		case !patience.Long:
			continue // compiles all that depends on codecs anew
		case words[1] == "test":
			out := run(root, "go", append([]string{"test", "-overlay", overlay}, words[2:]...)...)
			if !strings.Contains(out, "Codec/stride") {
				t.Errorf("%s ran no benchmark:\n%s", line, out)
			}
		case words[1] == "run":
			args := append([]string{"run", "-overlay", overlay}, words[2:]...)
			if words[3] == "run" {
				args = append(args, "model=logistic", "steps=4", "eval_every=4", "device.codec=free", "--out", filepath.Join(dir, "runs"))
			}
			if out := run(root, "go", args...); !strings.Contains(out, "stride") {
				t.Errorf("%s says nothing of the codec:\n%s", line, out)
			}
		default:
			t.Errorf("%q is no command that this test knows", line)
		}
	}
	if ran != 6 {
		t.Errorf("%d commands on the page, want 6", ran)
	}
	golden, err := os.ReadFile(filepath.Join(home, "testdata", "golden.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if n, each := strings.Count(string(golden), "\nstride(n="), strings.Count(string(golden), "\nraw\t"); n == 0 || n != 2*each {
		t.Errorf("the golden file has %d lines of the codec, want those of two: %d", n, 2*each)
	}
}

// docs/codecs.md shows examples/codec/own, which is built and put through the suite
// where it lies, as it stands.
func TestPageQuotesTheOwnCodec(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../../examples/codec/own/main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/codecs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(src), "\npackage main\n")
	if !ok || !strings.Contains(string(page), "```go\npackage main\n"+program+"```") {
		t.Error("the program in docs/codecs.md is not examples/codec/own/main.go")
	}
	_, codec, _ := strings.Cut(program, "\n)\n")
	lines := 0
	for _, l := range strings.Split(codec, "\n") {
		if strings.TrimSpace(l) != "" {
			lines++
		}
	}
	if lines > 40 {
		t.Errorf("a codec in %d lines", lines)
	}
}
