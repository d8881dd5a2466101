package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// byName lists where sources ask for a net by its name instead of its traits, and where they make a
// config.Resolved that no configuration was resolved to.
func byName(f file) (out []string) {
	is := func(e ast.Expr, name string) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == name
	}
	note := func(n ast.Node, what string) { out = append(out, fmt.Sprintf("%s: %s", f.set.Position(n.Pos()), what)) }
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if _, text := n.Y.(*ast.BasicLit); text && is(n.X, "Net") && (n.Op == token.EQL || n.Op == token.NEQ) {
				note(n, "a net is asked for by name; config.NetTraits says what it can do")
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && is(n.Tag, "Net") {
				note(n, "a net is asked for by name; config.NetTraits says what it can do")
			}
		case *ast.CompositeLit:
			if is(n.Type, "Resolved") {
				note(n, "only Config.Resolve makes a config.Resolved")
			}
		}
		return true
	})
	return out
}

func TestNetsAreAskedForTraits(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !strings.HasPrefix(f.pkg, "experiments") {
			continue
		}
		for _, where := range byName(f) {
			t.Error(where)
		}
	}
}

func TestNetsByNameAreFound(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	text := `package p
func f(c config.Config) any {
	if c.Net == "sim" || r.Config.Net != "mpi" || c.Net == other.Net || c.OnNet().Virtual {
		c.Net = "sim"
	}
	switch c.Net {
	case "grpc":
	}
	return &config.Resolved{}
}`
	f, err := parser.ParseFile(set, "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, where := range byName(file{ast: f, set: set}) {
		lines = append(lines, strings.Split(where, ":")[1])
	}
	if got := strings.Join(lines, " "); got != "3 3 6 9" {
		t.Errorf("found in lines %s, want 3 3 6 9", got)
	}
}
