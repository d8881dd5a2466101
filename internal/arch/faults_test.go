package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// The table of faults has a row for each of F1 to F28, and every test that a row names
// is one of the module's; a test whose name has a number stands in that row.
func TestEveryFaultHasItsTests(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	page, name := pages(t)["docs/faults.md"], regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (F\d+) \|.*$`).FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[0]
	}
	for n := 1; n <= 28; n++ {
		row, found := rows[fmt.Sprint("F", n)], 0
		for _, m := range name.FindAllStringSubmatch(row, -1) {
			if found++; !tests[m[1]] {
				t.Errorf("row F%d of docs/faults.md names %s, which is no test", n, m[1])
			}
		}
		if found == 0 {
			t.Errorf("docs/faults.md names no test for F%d", n)
		}
	}
	number := regexp.MustCompile(`F\d+`)
	for test := range tests {
		head := regexp.MustCompile(`^Test((?:F\d+)+)[A-Z]`).FindStringSubmatch(test)
		if head == nil {
			continue
		}
		for _, f := range number.FindAllString(head[1], -1) {
			if row := rows[f]; !strings.Contains(row, "`"+test+"`") {
				t.Errorf("%s is not in row %s of docs/faults.md", test, f)
			}
		}
	}
}
