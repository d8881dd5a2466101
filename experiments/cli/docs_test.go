package cli

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

var update = flag.Bool("update", false, "rewrite docs.txt from the comments of the parts' types")

const module = "github.com/gradlab/gradlab/"

// typeDocs reads the comments of the types of everything enrolled: text by type.
func typeDocs(t *testing.T) map[string]string {
	t.Helper()
	wanted := map[string][]string{} // names by package
	for _, k := range kinds() {
		for _, en := range k.entries() {
			i := strings.LastIndex(en.Type, ".")
			if path, ok := strings.CutPrefix(en.Type, module); ok {
				pkg := path[:i-len(module)]
				wanted[pkg] = append(wanted[pkg], en.Type[i+1:])
			}
		}
	}
	out := map[string]string{}
	for pkg, names := range wanted {
		dir := filepath.Join("..", "..", filepath.FromSlash(pkg))
		fset := token.NewFileSet()
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, s := range sources {
			if strings.HasSuffix(s, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, s, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		d, err := doc.NewFromFiles(fset, files, module+pkg)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range d.Types {
			if slices.Contains(names, typ.Name) {
				p := d.Printer()
				p.TextCodePrefix = "    "
				out[module+pkg+"."+typ.Name] = strings.TrimSpace(string(p.Text(d.Parser().Parse(typ.Doc))))
			}
		}
	}
	return out
}

// docs.txt is what go generate makes of the comments there are.
func TestDocsAreFresh(t *testing.T) {
	patience.Alone(t)
	var b strings.Builder
	read := typeDocs(t)
	for _, name := range slices.Sorted(maps.Keys(read)) {
		fmt.Fprintf(&b, "== %s\n%s\n", name, read[name])
	}
	if *update {
		if err := os.WriteFile("docs.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != docsText {
		t.Error("docs.txt is not what the comments of the parts' types say: go generate ./experiments/cli")
	}
	if len(docs()) != len(read) {
		t.Errorf("%d parts are read from docs.txt, %d were written", len(docs()), len(read))
	}
}

// What the type of every part says: its formula or rule, its paper where there is
// one, how to tune it and what it costs; of a study, whose result it computes again.
// go doc and gradlab help show it.
func TestEveryPartSaysWhatItIs(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	formula := regexp.MustCompile(`(?m)^    \S|^Rule: `)
	paper := regexp.MustCompile(`\b(19|20)\d\d\b|arXiv|(?m)^Paper: none`)
	asked := []struct {
		what string
		is   *regexp.Regexp
	}{
		{"no formula: lines that are indented, or a paragraph that begins with Rule:", formula},
		{"no paper; where there is none, say Paper: none", paper},
		{"no paragraph that begins with Tuning:", regexp.MustCompile(`(?m)^Tuning: `)},
		{"no paragraph that begins with Cost:", regexp.MustCompile(`(?m)^Cost: `)},
	}
	read := typeDocs(t)
	for _, k := range kinds() {
		for _, en := range k.entries() {
			if !strings.HasPrefix(en.Type, module) {
				continue
			}
			text := read[en.Type]
			if len(strings.Fields(text)) < 5 {
				t.Errorf("%s %s: type %s says nothing of itself", k.name, en.Name, en.Type)
				continue
			}
			switch k.name {
			case "codecs", "optimizers", "schedules", "batch-schedules", "side-schedules", "policies", "correctors", "topologies", "graphs", "placements", "modes":
			case "studies":
				if !paper.MatchString(text) && !strings.Contains(text, "\nSource: ") {
					t.Errorf("study %s: the comment of %s has no paragraph that begins with Source:, and names no paper", en.Name, en.Type)
				}
				continue
			default: // data, models, profiles and laws have no formula of their own
				continue
			}
			for _, a := range asked {
				if !a.is.MatchString(text) {
					t.Errorf("%s %s: the comment of %s has %s", k.name, en.Name, en.Type, a.what)
				}
			}
		}
	}
}
