package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// captive are parts that embed their owner. The list may only shrink.
var captive = []string{
	"sgd/train: inParts embeds *worker, which holds it",
	"sgd/train: stem embeds *relay, which holds it",
	"sgd/train: whole embeds *worker, which holds it",
}

// captives lists types of a package that embed a pointer to a type that holds them: what such a
// part needs of its owner cannot be told, as it may call anything. Who holds has a field of the
// part's type, or of an interface that the part satisfies and the owner does not.
func captives(set *token.FileSet, files []*ast.File) (out []string) {
	conf := types.Config{Importer: hollow{}, Error: func(error) {}}
	pkg, _ := conf.Check("p", set, files, nil) // errors are of imports
	for _, name := range pkg.Scope().Names() {
		part, fields := structOf(pkg.Scope().Lookup(name))
		for i := 0; fields != nil && i < fields.NumFields(); i++ {
			ptr, ok := fields.Field(i).Type().(*types.Pointer)
			if !ok || !fields.Field(i).Embedded() {
				continue
			}
			owner, ok := ptr.Elem().(*types.Named)
			if ok && owner.Obj().Pkg() == pkg && holds(owner, owner, part, map[types.Type]bool{}) {
				out = append(out, name+" embeds *"+owner.Obj().Name()+", which holds it")
			}
		}
	}
	return out
}

// structOf is the type that an object declares, and its fields; nil: it declares no struct.
func structOf(o types.Object) (*types.Named, *types.Struct) {
	name, ok := o.(*types.TypeName)
	if !ok {
		return nil, nil
	}
	named, ok := name.Type().(*types.Named)
	if !ok {
		return nil, nil
	}
	fields, _ := named.Underlying().(*types.Struct)
	return named, fields
}

// holds says whether in, which owner holds, is or has a part.
func holds(owner *types.Named, in types.Type, part *types.Named, seen map[types.Type]bool) bool {
	if seen[in] {
		return false
	}
	seen[in] = true
	switch t := in.(type) {
	case *types.Pointer:
		return t.Elem() == part
	case *types.Slice:
		return holds(owner, t.Elem(), part, seen)
	case *types.Array:
		return holds(owner, t.Elem(), part, seen)
	case *types.Map:
		return holds(owner, t.Elem(), part, seen)
	case *types.Struct:
		for i := range t.NumFields() {
			if holds(owner, t.Field(i).Type(), part, seen) {
				return true
			}
		}
	case *types.Named:
		if t == part {
			return true
		}
		face, ok := t.Underlying().(*types.Interface)
		if !ok {
			return holds(owner, t.Underlying(), part, seen)
		}
		return face.NumMethods() > 0 && t.Obj().Pkg() == part.Obj().Pkg() &&
			satisfies(part, face) && !satisfies(owner, face)
	}
	return false
}

// satisfies says whether pointers to t implement an interface. types.Implements takes all that
// embed something imported.
func satisfies(t *types.Named, face *types.Interface) bool {
	missing, _ := types.MissingMethod(types.NewPointer(t), face, true)
	return missing == nil
}

func TestNoPartEmbedsItsOwner(t *testing.T) {
	t.Parallel()
	files := map[string][]*ast.File{}
	var set *token.FileSet
	for _, f := range sources(t) {
		if !f.test && !strings.HasPrefix(f.pkg, "internal/_gen") {
			set = f.set
			files[f.pkg] = append(files[f.pkg], f.ast)
		}
	}
	var found []string
	for pkg, of := range files {
		for _, c := range captives(set, of) {
			found = append(found, pkg+": "+c)
		}
	}
	slices.Sort(found)
	for _, c := range found {
		if !slices.Contains(captive, c) {
			t.Error(c)
		}
	}
	for _, c := range captive {
		if !slices.Contains(found, c) {
			t.Errorf("%s: it does not; take it out of the exceptions", c)
		}
	}
}

func TestCaptivesAreFound(t *testing.T) {
	t.Parallel()
	const owner = "package p; type owner struct { way way; by map[string]*piece; other held }; type way interface { go_() };"
	for text, want := range map[string]string{
		"type held struct{}; type piece struct{ owner *owner }; type s struct{ *owner }":                       "",
		"type held struct{}; type piece struct{}; type s struct{ *owner }; func (s) go_() {}":                  "s embeds *owner, which holds it",
		"type held struct{}; type piece struct{}; type s struct{ *owner }; func (*owner) go_() {}":             "",
		"type held struct{}; type piece struct{}; type s struct{ *owner; x.Y }; func (s) go_(z x.Z) {}":        "",
		"type held struct{}; type piece struct{ *owner }":                                                      "piece embeds *owner, which holds it",
		"type held struct{ of [2]in }; type in struct{ *owner }; type piece struct{}":                          "in embeds *owner, which holds it",
		"type held struct{}; type piece struct{}; type s struct{ own }; type own struct{}; func (own) go_(){}": "",
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "x.go", owner+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(captives(set, []*ast.File{f}), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
