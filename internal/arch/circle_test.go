package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mostCircle is how many lines of one package may reach each other: a circle of files must be
// understood as a whole.
const mostCircle = 4000

// circles are packages with a larger circle, and its lines, to the next hundred. Figures may only
// fall, and what comes within the limit leaves the list.
var circles = map[string]int{
	"compress/compresstest": 5700,
	"experiments":           5200,
	"experiments/cli":       8000,
	"sgd/data":              7600,
	"sgd/train":             13900,
}

// arrows tells which files of a package use declarations of which others. Imports count for
// nothing, so none are read: what depends on their types alone is not seen.
func arrows(set *token.FileSet, files []*ast.File) map[int]map[int]bool {
	at := func(pos token.Pos) int {
		return slices.IndexFunc(files, func(f *ast.File) bool { return f.FileStart <= pos && pos < f.FileEnd })
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: hollow{}, Error: func(error) {}}
	_, _ = conf.Check("p", set, files, info) // errors are of imports
	out := map[int]map[int]bool{}
	for id, o := range info.Uses {
		if !o.Pos().IsValid() {
			continue
		}
		if from, to := at(id.Pos()), at(o.Pos()); from != to && to >= 0 {
			if out[from] == nil {
				out[from] = map[int]bool{}
			}
			out[from][to] = true
		}
	}
	return out
}

// hollow imports every package as one without declarations.
type hollow struct{}

func (hollow) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

// circle is the largest sum of weights of nodes that all reach each other, of two or more.
func circle(weights []int, to map[int]map[int]bool) (most int) {
	var order []int
	seen := make([]bool, len(weights))
	var visit func(i int, to map[int]map[int]bool, leave func(int))
	visit = func(i int, to map[int]map[int]bool, leave func(int)) {
		seen[i] = true
		for _, j := range slices.Sorted(maps.Keys(to[i])) {
			if !seen[j] {
				visit(j, to, leave)
			}
		}
		leave(i)
	}
	back := map[int]map[int]bool{}
	for i := range weights {
		for j := range to[i] {
			if back[j] == nil {
				back[j] = map[int]bool{}
			}
			back[j][i] = true
		}
		if !seen[i] {
			visit(i, to, func(i int) { order = append(order, i) })
		}
	}
	clear(seen)
	for _, i := range slices.Backward(order) { // Kosaraju and Sharir: backwards, latest ends first
		if sum, n := 0, 0; !seen[i] {
			visit(i, back, func(j int) { sum, n = sum+weights[j], n+1 })
			if n > 1 {
				most = max(most, sum)
			}
		}
	}
	return most
}

func TestCirclesAreSmall(t *testing.T) {
	t.Parallel()
	files, lines := map[string][]*ast.File{}, map[string][]int{}
	var set *token.FileSet
	for _, f := range sources(t) {
		if f.test || ast.IsGenerated(f.ast) || strings.HasPrefix(f.pkg, "internal/_gen") {
			continue
		}
		set = f.set
		files[f.pkg], lines[f.pkg] = append(files[f.pkg], f.ast), append(lines[f.pkg], f.lines(f.ast.FileEnd))
	}
	for pkg, of := range lines {
		all := 0
		for _, n := range of {
			all += n
		}
		if all <= mostCircle {
			of = nil
		}
		n := 0
		if of != nil {
			n = circle(of, arrows(set, files[pkg]))
		}
		switch allowed, exempt := circles[pkg]; {
		case n > max(mostCircle, allowed):
			t.Errorf("%s has a circle of %d lines, at most %d", pkg, n, max(mostCircle, allowed))
		case exempt && n <= mostCircle:
			t.Errorf("%s has no circle of more than %d lines; take it out of the exceptions", pkg, mostCircle)
		}
	}
}

func TestCircleIsFound(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	var files []*ast.File
	for _, text := range []string{
		"package p; import \"x/y\"; func a() { var v y.Z; b(v.W()) }",
		"package p; type T struct{}; func b(...any) { T{}.c() }",
		"package p; func (T) c() { a(); d() }",
		"package p; func d() {}",
	} {
		f, err := parser.ParseFile(set, "", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if n := circle([]int{1, 10, 100, 1000}, arrows(set, files)); n != 111 {
		t.Errorf("a circle of %d lines, want 111", n)
	}
	if n := circle([]int{1, 10}, map[int]map[int]bool{0: {1: true}}); n != 0 {
		t.Errorf("a circle of %d lines where there is none", n)
	}
}
