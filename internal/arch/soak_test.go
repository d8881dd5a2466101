//go:build soak

package arch

import (
	"go/ast"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// soakInputs is how many inputs each fuzz target gets, as -test.fuzztime says it.
const soakInputs = "200000x"

// TestFuzzEveryTarget gives every fuzz target of the module 200,000 inputs, guided by
// coverage. What fails is written to testdata/fuzz of the target's package; commit it
// there, and every later go test tries it.
//
//	go test -run Fuzz -tags soak -timeout 30m ./internal/arch ./compress/compresstest
func TestFuzzEveryTarget(t *testing.T) {
	t.Parallel()
	targets := map[string][]string{}
	for _, f := range sources(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				targets[f.pkg] = append(targets[f.pkg], fn.Name.Name)
			}
		}
	}
	if len(targets["compress/compresstest"]) == 0 || len(targets["comm/grpcnet"]) == 0 {
		t.Fatalf("decoders have fuzz targets, but only these were found: %v", targets)
	}
	base, built := root(t), t.TempDir()
	for pkg, names := range targets {
		binary := filepath.Join(built, strings.ReplaceAll(pkg, "/", "-"))
		build := exec.Command("go", "test", "-c", "-fuzz", ".", "-o", binary, "./"+pkg)
		build.Dir = base
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", pkg, err, out)
		}
		slices.Sort(names)
		for _, name := range names {
			t.Run(pkg+"/"+name, func(t *testing.T) {
				c := exec.Command(binary, "-test.run", "^$", "-test.fuzz", "^"+name+"$", "-test.fuzztime", soakInputs, "-test.fuzzcachedir", t.TempDir())
				c.Dir = filepath.Join(base, pkg)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
