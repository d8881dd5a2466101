package notebook

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	programs "github.com/gradlab/gradlab/internal/program"
)

// committed are the notebooks of the repository, by path.
func committed(t *testing.T) map[string]*Notebook {
	t.Helper()
	paths, err := filepath.Glob("../../notebooks/*.ipynb")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	out := map[string]*Notebook{}
	for _, p := range paths {
		if out[p], err = Read(p); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func firstCode(n *Notebook) string {
	for _, c := range n.Cells {
		if c.Type == "code" {
			return string(c.Source)
		}
	}
	return ""
}

// The first cell of every notebook makes GoNB's own module, which lies in a folder of its
// own, take gradlab from the checkout: its lines for the kernel are carried out here as
// GoNB does, and a program with gradlab in it builds.
func TestFirstCellUnderGoNB(t *testing.T) {
	notebooks, err := filepath.Abs("../../notebooks")
	if err != nil {
		t.Fatal(err)
	}
	first, shell, env := "", "", []string{"GONB_DIR=" + notebooks}
	for p, n := range committed(t) {
		switch c := firstCode(n); {
		case first == "":
			first = c
		case c != first:
			t.Errorf("%s begins with another cell:\n%s", p, c)
		}
		for _, c := range n.Cells { // GoNB keeps what is declared by its name, and _ twice
			if head, _, _ := split(string(c.Source)); c.Type == "code" && strings.Contains(head, "var _ ") {
				t.Errorf("%s declares _, which GoNB declares again", p)
			}
		}
	}
	for line := range strings.Lines(first) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "!*"):
			shell = strings.TrimPrefix(line, "!*")
		case strings.HasPrefix(line, "%env "):
			name, value, _ := strings.Cut(strings.TrimPrefix(line, "%env "), " ")
			env = append(env, name+"="+value)
		}
	}
	if shell == "" || !strings.Contains(first, "%noautoget") {
		t.Fatalf("the first cell is\n%s", first)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport _ \"github.com/gradlab/gradlab/notebooks/lab\"\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"go", "mod", "init", "gonb_cell"}, {"/bin/sh", "-c", shell}, {"go", "build", "-o", "cell"}} {
		c := exec.Command(command[0], command[1:]...)
		c.Dir, c.Env = dir, append(os.Environ(), env...)
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, b)
		}
	}
}

// execute runs a notebook by Jupyter's own client and prints the errors of its cells.
const execute = `
import sys, nbformat
from nbclient import NotebookClient
nb = nbformat.read(sys.argv[1], 4)
NotebookClient(nb, timeout=600, kernel_name="gonb", resources={"metadata": {"path": sys.argv[2]}}, allow_errors=True).execute()
for i, cell in enumerate(nb.cells):
    for o in cell.get("outputs", []):
        if o.output_type == "error":
            print("cell", i + 1, o.ename, o.evalue)
print(sum(len(c.get("outputs", [])) for c in nb.cells), "outputs")
`

// Where there are GoNB and Jupyter's client, notebooks run in the kernel itself.
func TestNotebooksUnderGoNB(t *testing.T) {
	if !patience.Long {
		t.Skip("builds every cell")
	}
	gonb, err := exec.LookPath("gonb")
	if err != nil {
		t.Skip("no gonb: go install github.com/janpfeifer/gonb@latest")
	}
	python := programs.Python(t, "nbclient")
	data := t.TempDir()
	spec, err := json.Marshal(map[string]any{"argv": []string{gonb, "--kernel", "{connection_file}"}, "display_name": "Go (gonb)", "language": "go", "interrupt_mode": "message"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(data, "kernels", "gonb"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "kernels", "gonb", "kernel.json"), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	notebooks, err := filepath.Abs("../../notebooks")
	if err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(notebooks, "runs") // which cells make
	if _, err := os.Stat(runs); errors.Is(err, fs.ErrNotExist) {
		t.Cleanup(func() { os.RemoveAll(runs) })
	}
	for _, name := range []string{"02-codecs-and-error-per-bit.ipynb", "07-write-your-own-codec.ipynb"} {
		c := exec.CommandContext(t.Context(), python, "-c", execute, filepath.Join(notebooks, name), notebooks)
		c.Env = append(os.Environ(), "JUPYTER_PATH="+data)
		out, err := c.Output()
		if err != nil || strings.Contains(string(out), "cell ") || strings.HasPrefix(string(out), "0 outputs") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
