package arch

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lattice says what each package of the module may import from the module, and
// which outside modules. A package that is not named here may not exist. Tests
// are free to import what they like.
const lattice = `
internal/rng            :
internal/registry       :
internal/safetensors    :
internal/par            :
internal/patience       :
internal/pool           :                                  | golang.org/x/sys
internal/f32            : internal/par                     | golang.org/x/sys gonum.org/v1/gonum
internal/f32/gonumblas  : internal/f32                     | gonum.org/v1/gonum
internal/conv           : internal/f32                     | golang.org/x/sys
lrschedule              : internal/registry
staleness               : internal/registry
staleness/staletest     : staleness
internal/codec          : internal/f32 internal/rng        | golang.org/x/sys
compress/bits           : internal/codec internal/f32                     | github.com/klauspost/compress
compress                : compress/bits internal/codec internal/f32 internal/rng internal/registry
compress/compresstest   : compress compress/bits internal/f32 internal/rng internal/registry
sgd                     : lrschedule internal/f32 internal/rng internal/registry
sgd/lbfgs               : internal/f32
sgd/sgdtest             : sgd internal/rng internal/f32
sgd/profile             : sgd internal/registry
sgd/nn                  : sgd internal/conv internal/f32 internal/par internal/pool internal/rng internal/registry
sgd/data                : sgd internal/f32 internal/par internal/rng internal/registry    | github.com/klauspost/compress golang.org/x/image
comm                    :
comm/commtest           : comm internal/patience
comm/local              : comm
comm/emulate            : comm                             | golang.org/x/sys
comm/sim                : comm internal/rng
comm/trace              : comm comm/sim
comm/shm                : comm                             | golang.org/x/sys
comm/grpcnet            : comm comm/shm                    | google.golang.org/grpc google.golang.org/protobuf golang.org/x/sys
comm/collective         : comm internal/registry
comm/ps                 : comm staleness internal/registry
sgd/train               : sgd sgd/lbfgs compress staleness staleness/staletest lrschedule comm comm/collective comm/ps internal/codec internal/f32 internal/par internal/rng internal/registry internal/safetensors    | gonum.org/v1/gonum
experiments/figure      :                                  | gonum.org/v1/plot golang.org/x/image golang.org/x/text github.com/jedib0t/go-pretty
experiments/table       :                                  | github.com/jedib0t/go-pretty
experiments/tensorboard :                                  | google.golang.org/protobuf
experiments/progress    : sgd/train                        | github.com/vbauerster/mpb golang.org/x/term github.com/jedib0t/go-pretty
experiments/bench       : sgd sgd/nn sgd/train compress staleness lrschedule comm comm/collective comm/grpcnet internal/f32 internal/rng experiments/figure    | github.com/klauspost/cpuid golang.org/x/sys
experiments/hardware    : sgd/profile internal/registry    | go.yaml.in/yaml
experiments/coding      : compress experiments/hardware internal/f32 internal/rng sgd sgd/nn sgd/train    | github.com/klauspost/cpuid go.yaml.in/yaml golang.org/x/sys
experiments             : *                                | *
experiments/stats       : internal/rng                     | github.com/montanaflynn/stats gonum.org/v1/gonum
experiments/store       : *                                | *
experiments/sweep       : *                                | *
experiments/advise      : *                                | *
experiments/reproduce   : *                                | *
experiments/report      : comm experiments experiments/figure experiments/progress experiments/stats experiments/store sgd/train
experiments/notebook    :
experiments/mlflow      : experiments experiments/store
experiments/serve       : comm experiments experiments/figure experiments/report experiments/store sgd/train    | github.com/prometheus/client_golang
notebooks/lab           : compress compress/compresstest experiments experiments/coding experiments/figure experiments/report experiments/reproduce experiments/stats experiments/store sgd/data
experiments/cli         : *                                | *
internal/arch           :
.                       : experiments/cli
`

// Only these may look at the wall clock, and only the command line and the
// display at the environment. Chance comes from internal/rng alone.
var (
	clocks = []string{"internal/patience", "internal/par" /* how long idle helpers look around */, "comm", "comm/local", "comm/emulate", "comm/grpcnet", "experiments", "experiments/bench", "experiments/cli", "experiments/progress", "experiments/serve", "experiments/coding" /* how fast codecs are */, "experiments/sweep" /* how long jobs take */, "experiments/notebook" /* likewise */, "sgd/data"}
	envs   = []string{"experiments/cli", "notebooks/lab" /* the kernel's pipe */, "experiments/progress" /* TERM */}
)

const module = "github.com/gradlab/gradlab"

func root(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

type file struct {
	pkg, path string
	ast       *ast.File
	set       *token.FileSet // of all files
	test      bool
}

// lines is the number of the line at a position.
func (f file) lines(at token.Pos) int { return f.set.Position(at).Line }

func (f file) base() string { return filepath.Base(f.path) }

func sources(t *testing.T) []file {
	var out []file
	base := root(t)
	fset := token.NewFileSet()
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != base && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != base && err == nil { // a module of its own
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(base, filepath.Dir(p))
		out = append(out, file{filepath.ToSlash(rel), p, f, fset, strings.HasSuffix(name, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImports(t *testing.T) {
	type rule struct{ in, out []string }
	rules := map[string]rule{}
	for _, line := range strings.Split(strings.TrimSpace(lattice), "\n") {
		pkg, rest, _ := strings.Cut(line, ":")
		in, out, _ := strings.Cut(rest, "|")
		rules[strings.TrimSpace(pkg)] = rule{strings.Fields(in), strings.Fields(out)}
	}
	for _, f := range sources(t) {
		r, ok := rules[f.pkg]
		if !ok {
			t.Errorf("package %s is not in the lattice", f.pkg)
			continue
		}
		if f.test {
			continue
		}
		for _, im := range f.ast.Imports {
			path := strings.Trim(im.Path.Value, `"`)
			if own, ok := strings.CutPrefix(path, module+"/"); ok {
				if !slices.Contains(r.in, own) && !slices.Contains(r.in, "*") {
					t.Errorf("%s imports %s, which the lattice does not allow", f.path, own)
				}
				continue
			}
			if !strings.Contains(strings.Split(path, "/")[0], ".") || slices.Contains(r.out, "*") {
				continue // standard library
			}
			if !slices.ContainsFunc(r.out, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }) {
				t.Errorf("%s imports %s, which the lattice does not allow", f.path, path)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if !f.test {
			documented[f.pkg] = documented[f.pkg] || f.ast.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment that says what it is for", pkg)
		}
	}
}

// withoutExample are public packages that a runnable example would say nothing of.
var withoutExample = map[string]string{
	".":                     "the program",
	"experiments/cli":       "the command line: README and docs are its example",
	"experiments/bench":     "prints what it measures on this machine",
	"comm/shm":              "memory that grpcnet moves frames through; nobody else imports it",
	"comm/commtest":         "a suite, run by the tests of every net",
	"compress/compresstest": "a suite; CONTRIBUTING and examples/codec show it",
	"sgd/sgdtest":           "a suite, run by the tests of package sgd",
	"staleness/staletest":   "a suite, run by its own tests",
}

// Who reads a package's documentation finds code that runs, and what it prints.
func TestEveryPackageHasAnExample(t *testing.T) {
	examples, public := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasPrefix(f.pkg, "internal/") {
			continue
		}
		if !f.test {
			public[f.pkg] = true
			continue
		}
		for _, e := range doc.Examples(f.ast) {
			examples[f.pkg] = examples[f.pkg] || e.Output != ""
		}
	}
	for pkg := range public {
		switch _, spared := withoutExample[pkg]; {
		case !spared && !examples[pkg]:
			t.Errorf("package %s has no Example with an output", pkg)
		case spared && examples[pkg]:
			t.Errorf("package %s has an Example and needs no excuse", pkg)
		}
	}
	for pkg := range withoutExample {
		if !public[pkg] {
			t.Errorf("there is no package %s to excuse", pkg)
		}
	}
}

func TestTimeChanceAndEnvironment(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.pkg == "internal/arch" || strings.HasSuffix(f.pkg, "test") {
			continue
		}
		for _, im := range f.ast.Imports {
			if p := strings.Trim(im.Path.Value, `"`); p == "math/rand" || p == "math/rand/v2" {
				t.Errorf("%s imports %s; draws come from internal/rng, by address", f.path, p)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch x.Name + "." + sel.Sel.Name {
			case "time.Now", "time.Sleep", "time.Since", "time.After", "time.NewTimer", "time.NewTicker", "time.AfterFunc":
				if !slices.Contains(clocks, f.pkg) {
					t.Errorf("%s uses %s.%s; only %v may look at the wall clock", f.path, x.Name, sel.Sel.Name, clocks)
				}
			case "os.Getenv", "os.LookupEnv":
				if !slices.Contains(envs, f.pkg) {
					t.Errorf("%s reads the environment; only %v may", f.path, envs)
				}
			}
			return true
		})
	}
}
