package notebook

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// program makes one Go program of a notebook: the declarations of all cells,
// and for every cell with a body a function that main calls by its number.
func program(name string, n *Notebook) (source []byte, bodies []int, err error) {
	var decls, funcs, cases strings.Builder
	imports := map[string]string{} // name in use → import as written
	for i, c := range n.Cells {
		if c.Type != "code" {
			continue
		}
		head, body, hasBody := split(string(c.Source))
		if err := takeDecls(head, imports, &decls); err != nil {
			return nil, nil, fmt.Errorf("%s, cell %d: %w", name, i+1, err)
		}
		if !hasBody {
			continue
		}
		bodies = append(bodies, i)
		fmt.Fprintf(&funcs, "func cell%d() {\n%s}\n\n", i, body)
		fmt.Fprintf(&cases, "case %q:\ncell%d()\n", strconv.Itoa(i), i)
	}
	rest := decls.String() + funcs.String()
	var b bytes.Buffer
	b.WriteString("package main\n\nimport nbos \"os\"\n")
	for as, text := range imports {
		if used(rest, as) || as == "_" {
			fmt.Fprintf(&b, "import %s\n", text)
		}
	}
	fmt.Fprintf(&b, "\nfunc main() {\nswitch nbos.Args[1] {\n%s}\n}\n\n%s", cases.String(), rest)
	source, err = format.Source(b.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return source, bodies, nil
}

// split cuts a cell into its declarations and its body, and drops what speaks
// to the kernel.
func split(source string) (head, body string, hasBody bool) {
	var h, b strings.Builder
	for _, line := range strings.SplitAfter(source, "\n") {
		t := strings.TrimSpace(line)
		switch {
		case t == "%%" || strings.HasPrefix(t, "%% "):
			hasBody = true
			continue
		case strings.HasPrefix(t, "!") || strings.HasPrefix(t, "%"):
			continue
		}
		if line != "" && !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		if hasBody {
			b.WriteString(line)
		} else {
			h.WriteString(line)
		}
	}
	return h.String(), b.String(), hasBody
}

// takeDecls adds a cell's imports and other declarations.
func takeDecls(head string, imports map[string]string, decls *strings.Builder) error {
	const before = "package main\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "cell", before+head, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, im := range f.Imports {
		as, text := importName(im)
		imports[as] = text
	}
	src := before + head
	end := 0
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			end = fset.Position(d.End()).Offset
			continue
		}
		end = max(end, len(before))
		stop := fset.Position(d.End()).Offset
		decls.WriteString(strings.TrimSpace(src[end:stop]) + "\n\n")
		end = stop
	}
	return nil
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// importName is the name that an import is used by, and the import as written.
func importName(im *ast.ImportSpec) (as, text string) {
	p, _ := strconv.Unquote(im.Path.Value)
	if im.Name != nil {
		return im.Name.Name, im.Name.Name + " " + im.Path.Value
	}
	as = path.Base(p)
	if version.MatchString(as) {
		as = path.Base(path.Dir(p))
	}
	return as, im.Path.Value
}

// used says whether a package is mentioned.
func used(source, name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\.`).MatchString(source)
}
