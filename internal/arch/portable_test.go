package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/gradlab/gradlab/internal/patience"
)

// Every package and test is well typed on other systems and processors, also where an int
// has 32 bits. Sources are read, those of dependencies without function bodies: to compile
// them all for another machine takes twenty times as long.
func TestWellTypedElsewhere(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("reads the sources of every dependency")
	}
	for _, platform := range []string{"linux/386", "darwin/arm64", "windows/amd64", "linux/riscv64"} {
		t.Run(platform, func(t *testing.T) { wellTyped(t, platform) })
	}
}

func wellTyped(t *testing.T, platform string) {
	base := root(t)
	system, processor, _ := strings.Cut(platform, "/")
	loaded, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax,
		Dir:   base,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, base) {
				for _, d := range f.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok {
						fn.Body = nil
					}
				}
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, p := range loaded {
		if strings.HasSuffix(p.ID, ".test") {
			continue // the main program of a test is not ours
		}
		ours++
		for _, e := range p.Errors {
			t.Error(e)
		}
	}
	if ours < 50 {
		t.Errorf("%d packages", ours)
	}
}
