package arch

import (
	"go/ast"
	"testing"
	"unicode"
	"unicode/utf8"
)

// misnamed is the first word of an exported declaration's comment, where that is another name, one
// that begins with a small letter: of a declaration that was renamed. "": there is none.
func misnamed(name *ast.Ident, doc *ast.CommentGroup) string {
	if !name.IsExported() || doc == nil {
		return ""
	}
	text := doc.Text()
	for i, c := range text {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '_' {
			text = text[:i]
			break
		}
	}
	if c, _ := utf8.DecodeRuneInString(text); !unicode.IsLower(c) {
		return ""
	}
	return text
}

func TestCommentsNameWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || ast.IsGenerated(f.ast) {
			continue
		}
		for _, d := range f.ast.Decls {
			name, doc := (*ast.Ident)(nil), (*ast.CommentGroup)(nil)
			switch d := d.(type) {
			case *ast.FuncDecl:
				name, doc = d.Name, d.Doc
			case *ast.GenDecl:
				if s, ok := d.Specs[0].(*ast.TypeSpec); len(d.Specs) == 1 && ok {
					name, doc = s.Name, d.Doc
				}
			}
			if name != nil && misnamed(name, doc) != "" {
				t.Errorf("%s: the comment of %s begins with %q", f.path, name.Name, misnamed(name, doc))
			}
		}
	}
}
