package arch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script matches the path of a program in another language.
var script = regexp.MustCompile(`\b[\w/]+\.(py|c)\b`)

// Programs in other languages that Go code names, in a string or a comment, are
// there: a peer without its script would measure nothing. Each one that is there is
// named, and can be read by its interpreter or compiler where there is one.
func TestHelperScripts(t *testing.T) {
	t.Parallel()
	base := root(t)
	there := map[string]bool{} // by path, whether Go code names it
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != base && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")):
			return filepath.SkipDir
		case !d.IsDir() && script.MatchString(d.Name()):
			there[p] = false
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sources(t) {
		if f.pkg == "internal/arch" {
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range script.FindAllString(string(text), -1) {
			// By its path from the package, or by its name beside another.
			path := filepath.Join(filepath.Dir(f.path), name)
			if _, ok := there[path]; ok {
				there[path] = true
			} else if strings.HasPrefix(name, "testdata/") {
				t.Errorf("%s names %s, which is not there", f.path, name)
			}
		}
	}
	python := []string{"-c", "import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]"}
	for path, named := range there {
		if !named {
			t.Errorf("%s is named nowhere in the Go code of its package: say what runs it", path)
		}
		check := exec.Command("gcc", "-fsyntax-only", path)
		if !strings.HasSuffix(path, ".c") {
			python = append(python, path)
			continue
		}
		// A header that is not installed is no fault of the program.
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "<mpi.h>") {
			check = exec.Command("mpicc", "-fsyntax-only", path)
			// Open MPI's programs come with mpicc, its headers in a package of their own.
			if probe := exec.Command("mpicc", "-E", "-include", "mpi.h", "-x", "c", os.DevNull); probe.Run() != nil {
				continue
			}
		}
		if check.Err != nil {
			continue // not installed
		}
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
	if check := exec.Command("python3", python...); check.Err == nil {
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
