package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Limits of the pages: README and ARCHITECTURE are read in one sitting, and no
// sentence has to be read twice.
const (
	readmeBytes       = 9 << 10
	architectureBytes = 8 << 10
	sentenceWords     = 30
)

// pages are the module's pages for people: path below the root to text.
func pages(t *testing.T) map[string]string {
	t.Helper()
	base, out := root(t), map[string]string{}
	names, err := filepath.Glob(filepath.Join(base, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		names = append(names, filepath.Join(base, n))
	}
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(base, n)
		out[filepath.ToSlash(rel)] = string(text)
	}
	return out
}

var (
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
	codeSpan   = regexp.MustCompile("`[^`]*`")
	linked     = regexp.MustCompile(`!?\[([^\]]*)\]\(([^)\s]*)\)`)
	listItem   = regexp.MustCompile(`^\s*(?:[*-]|\d+\.)\s+`)
	comment    = regexp.MustCompile(`(?s)<!--.*?-->`)
	sentenceAt = regexp.MustCompile(`[.!?][)*"]*\s+`)

	// After these a full stop ends no sentence.
	abbreviation = regexp.MustCompile(`(?:^|[\s(])(?:et al|e\.g|i\.e|cf|eq|vs|alg|fig)\.\s+$`)
)

// prose takes out of a page what is no prose, code and comments, and puts a word
// for what counts as one: code within a line, and a link its text.
func prose(page string) string {
	page = codeBlock.ReplaceAllString(comment.ReplaceAllString(page, ""), "")
	page = codeSpan.ReplaceAllString(page, "code")
	return linked.ReplaceAllString(page, "$1")
}

// sentences lists those of a page: a paragraph, an item of a list, a heading and
// a cell of a table each end one.
func sentences(page string) (out []string) {
	var paragraph []string
	end := func() {
		text := strings.Join(paragraph, " ")
		paragraph = nil
		from := 0
		for _, at := range sentenceAt.FindAllStringIndex(text, -1) {
			if abbreviation.MatchString(text[from:at[1]]) {
				continue
			}
			out = append(out, text[from:at[1]])
			from = at[1]
		}
		out = append(out, text[from:])
	}
	for line := range strings.Lines(prose(page)) {
		line = strings.TrimRight(line, "\n")
		switch bare := strings.TrimSpace(line); {
		case bare == "":
			end()
		case strings.HasPrefix(bare, "|"):
			end()
			for cell := range strings.SplitSeq(bare, "|") {
				paragraph = []string{cell}
				end()
			}
		case strings.HasPrefix(bare, "#"):
			end()
			paragraph = []string{bare}
			end()
		case listItem.MatchString(line):
			end()
			paragraph = []string{listItem.ReplaceAllString(line, "")}
		default:
			paragraph = append(paragraph, bare)
		}
	}
	end()
	return out
}

// words counts the words of a sentence: what has a letter or a digit.
func words(sentence string) (n int) {
	for w := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// Nobody has to read a sentence twice.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		for _, s := range sentences(page) {
			if n := words(s); n > sentenceWords {
				t.Errorf("%s: a sentence of %d words; at most %d: %s", name, n, sentenceWords, strings.TrimSpace(s))
			}
		}
	}
}

// The checker finds the sentences it is for, and no others.
func TestSentencesAreFound(t *testing.T) {
	t.Parallel()
	page := "# A heading\n\nOne `a b c` two. Three, i.e. four [five six](x.md)!\n* An item.\n* Another\n  that goes on. And `code`. `x` too.\n\n| a cell | b (c.) |\n```sh\nno prose. At all.\n```\n"
	want := []string{"# A heading", "One code two.", "Three, i.e. four five six!", "An item.", "Another that goes on.", "And code.", "code too.", "a cell", "b (c.)"}
	var got []string
	for _, s := range sentences(page) {
		if s = strings.TrimSpace(s); s != "" {
			got = append(got, s)
		}
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := words("Two words — and 1."); n != 4 {
		t.Errorf("%d words, want 4", n)
	}
}

// anchors are the names that a page's headings can be linked by, as code hosts
// make them: lower case, without punctuation, dashes for spaces.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(codeBlock.ReplaceAllString(page, "")) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		title := linked.ReplaceAllString(strings.TrimSpace(strings.TrimLeft(line, "#")), "$1")
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, title)
		for n, unique := 1, name; ; n++ {
			if !out[unique] {
				out[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", name, n)
		}
	}
	return out
}

// Links lead somewhere: to a file of the module, and to a heading that is there.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	found := 0
	for name, page := range all {
		for _, m := range linked.FindAllStringSubmatch(codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "code"), -1) {
			to := m[2]
			if strings.Contains(to, "://") {
				continue
			}
			found++
			path, anchor, anchored := strings.Cut(to, "#")
			file := name
			if path != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
				if _, err := os.Stat(filepath.Join(root(t), file)); err != nil {
					t.Errorf("%s links to %s, which is not there", name, to)
					continue
				}
			}
			if anchored && !anchors(all[file])[anchor] {
				t.Errorf("%s links to %s; %s has no such heading", name, to, file)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links found", found)
	}
}

// Pages that everybody reads first stay short, and every other page is on the map.
func TestPages(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for name, limit := range map[string]int{"README.md": readmeBytes, "ARCHITECTURE.md": architectureBytes} {
		if n := len(all[name]); n > limit {
			t.Errorf("%s has %d bytes, at most %d", name, n, limit)
		}
	}
	for name := range all {
		if name != "README.md" && !strings.Contains(all["README.md"], "("+name+")") {
			t.Errorf("README's map of the pages has no link to %s", name)
		}
	}
}

// named is an exported identifier of a package, as pages write one: `comm.Work`,
// `ps.Core.PushSum`.
var named = regexp.MustCompile("`([a-z][a-z0-9]*)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?[`({]")

// exported collects what packages of the module export: names, and "Type.Name" for
// methods and fields, by the package's name.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		if out[f.ast.Name.Name] == nil {
			out[f.ast.Name.Name] = map[string]bool{}
		}
		has := out[f.ast.Name.Name]
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					has[d.Name.Name] = true
					continue
				}
				typ := d.Recv.List[0].Type
				if p, ok := typ.(*ast.StarExpr); ok {
					typ = p.X
				}
				if id, ok := typ.(*ast.Ident); ok {
					has[id.Name+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					exports(has, s)
				}
			}
		}
	}
	return out
}

// exports adds what a declaration names, and the fields and methods of a type.
func exports(has map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			has[n.Name] = true
		}
	case *ast.TypeSpec:
		has[s.Name.Name] = true
		var fields *ast.FieldList
		switch typ := s.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				has[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// What pages call by the name of an identifier is there under that name.
func TestPagesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	has, found := exported(t), 0
	for name, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(page, -1) {
			pkg, ok := has[m[1]]
			if !ok {
				continue // of another module
			}
			found++
			if !pkg[m[2]] || m[3] != "" && !pkg[m[2]+"."+m[3]] {
				t.Errorf("%s names %s, which package %s does not have", name, strings.Trim(m[0], "`({"), m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d identifiers found", found)
	}
}
