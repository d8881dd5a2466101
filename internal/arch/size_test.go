package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// What is larger than this is read in parts, so it is written in parts. Tests are
// free: a table of cases may be long.
const (
	mostFileLines  = 600
	mostLines      = 100 // of a function, from its name to its last bracket
	mostComplexity = 25  // of a function: one more than its branches (McCabe 1976)
)

// exempt are what may be larger for now, by package, as "file.go" or "name" of a
// function. What no longer needs its place here fails the test.
var exempt = map[string][]string{}

func TestNothingIsTooLarge(t *testing.T) {
	t.Parallel()
	large := map[string][]string{} // package → what is too large
	say := map[string]string{}
	note := func(pkg, name, format string, args ...any) {
		if !slices.Contains(large[pkg], name) {
			large[pkg] = append(large[pkg], name)
		}
		say[pkg+" "+name] += " " + fmt.Sprintf(format, args...)
	}
	for _, f := range sources(t) {
		if f.test || ast.IsGenerated(f.ast) {
			continue
		}
		if n := f.lines(f.ast.FileEnd); n > mostFileLines {
			note(f.pkg, f.base(), "%d lines, at most %d", n, mostFileLines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := f.lines(fn.End()) - f.lines(fn.Pos()) + 1; n > mostLines {
				note(f.pkg, funcName(fn), "%d lines, at most %d", n, mostLines)
			}
			if n := complexity(fn); n > mostComplexity {
				note(f.pkg, funcName(fn), "complexity %d, at most %d", n, mostComplexity)
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(large)) {
		for _, name := range large[pkg] {
			if !slices.Contains(exempt[pkg], name) {
				t.Errorf("%s, %s:%s", pkg, name, say[pkg+" "+name])
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(exempt)) {
		for _, name := range exempt[pkg] {
			if !slices.Contains(large[pkg], name) {
				t.Errorf("%s, %s is within limits; take it out of the exceptions", pkg, name)
			}
		}
	}
}

// complexity is the cyclomatic complexity of a function: 1, and 1 for each if, for,
// case, select case, && and ||, in function literals too.
func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil { // not default
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// funcName is a function's name, behind that of its receiver's type.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	return t.(*ast.Ident).Name + "." + fn.Name.Name
}
