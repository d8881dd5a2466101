package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A kernel is assembly that wants instructions which not every processor has. Its symbol is
// asmXxx; the function xxx is the only way to it, and looks first whether the processor has
// exactly what the kernel requires.
func TestKernelsHaveOneWayIn(t *testing.T) {
	t.Parallel()
	all := sources(t)
	seen := 0
	for _, pkg := range packagesWithKernels(t) {
		required := requirements(t, filepath.Join(root(t), pkg, "kernels_amd64.s"))
		var ways file
		for _, f := range all {
			if f.pkg != pkg {
				continue
			}
			if f.base() == "kernels_amd64.go" {
				ways = f
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && required[id.Name] != nil {
					t.Errorf("%s:%d names the kernel %s: call its way in", f.path, f.lines(id.Pos()), id.Name)
				}
				return true
			})
		}
		constants := needsOf(ways.ast)
		reached := map[string]int{}
		for _, d := range ways.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.Name == "init" {
				continue
			}
			name := fn.Name.Name
			symbol := "asm" + strings.ToUpper(name[:1]) + name[1:]
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && required[id.Name] != nil {
					if reached[id.Name]++; id.Name != symbol {
						t.Errorf("%s: %s calls %s", pkg, name, id.Name)
					}
				}
				return true
			})
			if guard := guardOf(fn); guard == "" {
				t.Errorf("%s: %s does not begin with: if !cpu.Has(%[2]sNeeds) { return }", pkg, name)
			} else if has, want := constants[guard], required[symbol]; !slices.Equal(has, want) {
				t.Errorf("%s: %s looks for %v, and its kernel requires %v", pkg, name, has, want)
			}
		}
		for symbol := range required {
			if seen++; reached[symbol] != 1 {
				t.Errorf("%s: %s has %d ways in", pkg, symbol, reached[symbol])
			}
		}
	}
	if seen < 200 {
		t.Errorf("%d kernels were looked at", seen)
	}
}

func packagesWithKernels(t *testing.T) (pkgs []string) {
	files, err := filepath.Glob(filepath.Join(root(t), "internal", "*", "kernels_amd64.s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		pkgs = append(pkgs, "internal/"+filepath.Base(filepath.Dir(f)))
	}
	return pkgs
}

// everywhere is what every amd64 processor has.
var everywhere = []string{"SSE", "SSE2", "CMOV", "MMX+", "CPUID"}

// requirements are what the kernels of an assembly file require, as package cpu names it.
func requirements(t *testing.T, path string) map[string][]string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^// Requires: (.*)\nTEXT ·(asm\w+)\(SB\)`).FindAllStringSubmatch(string(text), -1) {
		var fs []string
		for _, f := range strings.Split(m[1], ", ") {
			if !slices.Contains(everywhere, f) {
				fs = append(fs, strings.Replace(f, "FMA3", "FMA", 1))
			}
		}
		slices.Sort(fs)
		out[m[2]] = fs
	}
	return out
}

// needsOf are the constants xxxNeeds of a file, each the features it is the union of.
func needsOf(f *ast.File) map[string][]string {
	out := map[string][]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			var fs []string
			ast.Inspect(v.Values[0], func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					fs = append(fs, sel.Sel.Name)
				}
				return true
			})
			slices.Sort(fs)
			out[v.Names[0].Name] = fs
		}
	}
	return out
}

// guardOf is the constant that a function looks for before anything else, and without
// which it returns; "" if it does not.
func guardOf(fn *ast.FuncDecl) string {
	if len(fn.Body.List) == 0 {
		return ""
	}
	branch, ok := fn.Body.List[0].(*ast.IfStmt)
	if !ok || branch.Init != nil || len(branch.Body.List) != 1 {
		return ""
	}
	if _, ok := branch.Body.List[0].(*ast.ReturnStmt); !ok {
		return ""
	}
	not, ok := branch.Cond.(*ast.UnaryExpr)
	if !ok || not.Op != token.NOT {
		return ""
	}
	call, ok := not.X.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Has" {
		return ""
	}
	id, _ := call.Args[0].(*ast.Ident)
	return id.Name
}

// exact are the functions of package math that have the same bits on every processor: IEEE
// 754 or whole numbers say what they return. Others are those of internal/portable.
var exact = map[string]bool{}

func init() {
	for _, name := range []string{
		"Abs", "Ceil", "Copysign", "Dim", "FMA", "Float32bits", "Float32frombits", "Float64bits", "Float64frombits", "Floor", "Frexp",
		"Ilogb", "Inf", "IsInf", "IsNaN", "Ldexp", "Max", "Min", "Mod", "Modf", "NaN", "Nextafter", "Nextafter32", "Pow10", "Remainder",
		"Round", "RoundToEven", "Signbit", "Sqrt", "Trunc",
	} {
		exact[name] = true
	}
}

// What a run computes is the same on every processor: the packages that package experiments
// imports, itself and what they import, call no function of package math that is not.
func TestMathIsPortable(t *testing.T) {
	t.Parallel()
	all := sources(t)
	graph := imports(all)
	runs := map[string]bool{}
	var reach func(pkg string)
	reach = func(pkg string) {
		if runs[pkg] {
			return
		}
		runs[pkg] = true
		for _, path := range graph[pkg] {
			if own, ok := strings.CutPrefix(path, module+"/"); ok {
				reach(own)
			}
		}
	}
	reach("experiments")
	calls := 0
	for _, f := range all {
		if f.test || !runs[f.pkg] || f.pkg == "internal/portable" || strings.HasSuffix(f.pkg, "test") {
			continue
		}
		for _, im := range f.ast.Imports {
			if path := strings.Trim(im.Path.Value, `"`); path == "math/cmplx" || path == "math/rand" || path == "math/rand/v2" {
				t.Errorf("%s imports %s, whose bits differ between processors", f.path, path)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "math" {
				if calls++; !exact[sel.Sel.Name] {
					t.Errorf("%s:%d calls math.%s, whose bits differ between processors: see internal/portable", f.path, f.lines(call.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
	if calls < 100 || !runs["sgd/nn"] {
		t.Errorf("%d calls in %v", calls, slices.Sorted(maps.Keys(runs)))
	}
}
