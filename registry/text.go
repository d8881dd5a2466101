package registry

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// node is one parsed value: a word, perhaps with arguments, or a list.
type node struct {
	text   string
	list   bool
	quoted bool
	args   []arg
	source string // all of a word with arguments
}

type arg struct {
	key string
	node
}

type parser struct {
	s     string
	i     int
	depth int
}

// maxDepth bounds recursion so that hostile text cannot exhaust the stack.
const maxDepth = 64

func (p *parser) skip() int {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\t' || p.s[p.i] == '\n') {
		p.i++
	}
	return p.i
}

func (p *parser) word() string {
	start := p.skip()
	for p.i < len(p.s) && !strings.ContainsRune("()[],= \t\n", rune(p.s[p.i])) {
		p.i++
	}
	return p.s[start:p.i]
}

// whole is the one value that the text is.
func (p *parser) whole() (node, error) {
	n, err := p.node()
	if err == nil && p.skip() != len(p.s) {
		err = fmt.Errorf("unexpected %q after it", p.s[p.i:])
	}
	return n, err
}

func (p *parser) node() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return node{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	p.skip()
	if p.i < len(p.s) && p.s[p.i] == '[' {
		p.i++
		args, err := p.args(']')
		return node{list: true, args: args}, err
	}
	if p.i < len(p.s) && p.s[p.i] == '"' {
		end := Quoted(p.s[p.i:])
		if end == 0 {
			return node{}, fmt.Errorf("a double quote has no other at %q", p.s[p.i:])
		}
		text, err := strconv.Unquote(p.s[p.i : p.i+end])
		if err != nil {
			return node{}, fmt.Errorf(`want text in double quotes, on one line, with \" for a quote and \\ for a backslash, not %s`, p.s[p.i:p.i+end])
		}
		p.i += end
		return node{text: text, quoted: true}, nil
	}
	start := p.i
	n := node{text: p.word()}
	if n.text == "" {
		if p.i < len(p.s) {
			return n, fmt.Errorf("want a name or a value at %q", p.s[p.i:])
		}
		return n, fmt.Errorf("want a name or a value at the end")
	}
	p.skip()
	if p.i < len(p.s) && p.s[p.i] == '(' {
		p.i++
		var err error
		n.args, err = p.args(')')
		n.source = p.s[start:p.i]
		return n, err
	}
	return n, nil
}

func (p *parser) args(end byte) ([]arg, error) {
	var out []arg
	p.skip()
	if p.i < len(p.s) && p.s[p.i] == end {
		p.i++
		return out, nil
	}
	for {
		v, err := p.node()
		if err != nil {
			return nil, err
		}
		a := arg{node: v}
		p.skip()
		if p.i < len(p.s) && p.s[p.i] == '=' {
			if v.list || v.quoted || len(v.args) > 0 {
				return nil, fmt.Errorf("a key is a plain word, not %q", v.text)
			}
			p.i++
			a.key = v.text
			if a.node, err = p.node(); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
		p.skip()
		switch {
		case p.i >= len(p.s):
			return nil, fmt.Errorf("missing %q at the end", end)
		case p.s[p.i] == ',':
			p.i++
		case p.s[p.i] == end:
			p.i++
			return out, nil
		default:
			blank := ""
			if c := p.s[p.i-1]; c == ' ' || c == '\t' || c == '\n' {
				blank = `; text with a blank in it stands in double quotes`
			}
			return nil, fmt.Errorf("want %q or \",\" at %q%s", end, p.s[p.i:], blank)
		}
	}
}

// Quoted is the length of the text in double quotes that s begins with, both quotes
// included; 0 if it begins with none or has no end. A backslash hides what follows it.
func Quoted(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// bare is quote of the text of a type that reads its own: a spec stays as it is.
func bare(text string) string {
	p := parser{s: text}
	if n, err := p.whole(); err == nil && n.source == text {
		return text
	}
	return quote(text)
}

// quote is text as the grammar takes it: in quotes where they are needed.
func quote(text string) string {
	if text == "" || strings.ContainsAny(text, "()[],=\" \t\n") {
		return strconv.Quote(text)
	}
	return text
}

// SplitTop splits s at commas outside brackets and quotes, trimming spaces:
// "raw,topk(keep=0.1,index=rice)" gives two parts. Empty text gives none.
func SplitTop(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || (s[i] == ',' && depth == 0) {
			if part := strings.TrimSpace(s[start:i]); part != "" || i < len(s) || len(out) > 0 {
				out = append(out, part)
			}
			start = i + 1
			continue
		}
		switch s[i] {
		case '"':
			i += max(0, Quoted(s[i:])-1)
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
	}
	return out
}

// Nearest returns the entry of from closest to s by edit distance, "" when
// nothing is near.
func Nearest(s string, from []string) string {
	best, bestD := "", len(s)/2+2
	for _, f := range from {
		if len(s)-len(f) >= bestD { // hopeless, and s may be long
			continue
		}
		if d := distance(strings.ToLower(s), f); d < bestD {
			best, bestD = f, d
		}
	}
	return best
}

// Suggest words the end of an "unknown name" message: the nearest spelling,
// then everything there is.
func Suggest(s string, from []string) string {
	all := append([]string(nil), from...)
	sort.Strings(all)
	list := strings.Join(all, ", ")
	if list == "" {
		return "there are none"
	}
	if n := Nearest(s, from); n != "" {
		return fmt.Sprintf("did you mean %q? there are: %s", n, list)
	}
	return "there are: " + list
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		prev := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			prev, row[j] = row[j], min(row[j]+1, row[j-1]+1, prev+cost)
		}
	}
	return row[len(b)]
}
