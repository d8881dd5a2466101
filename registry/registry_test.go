package registry_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/registry"
)

// shape is the interface of a made-up kind of things.
type shape interface{ Sides() int }

type square struct {
	Size   float64
	Filled bool
}

type wrap struct {
	In    shape
	Times int
}

type group struct {
	Parts []shape
	Gap   float64 `doc:"space between parts"`
}

// late has its nested fields behind plain ones.
type late struct {
	Rate  float64
	First shape
	Then  shape
	Rest  []shape
}

type color int

func (color) String() string { return "a color" }

type everything struct {
	Bool     bool
	Int      int
	Small    int8
	Uint     uint16
	F32      float32
	F64      float64 `spec:"f64,show"`
	Word     string
	Wait     time.Duration
	At       []float64
	Names    []string
	Color    color
	HTTPPort int
	hidden   int //lint:ignore U1000 what is not exported is no option
	Skipped  int `spec:"-"`
}

type picky struct{ Share float64 }

func (p picky) Validate() error {
	if p.Share > 1 {
		return errors.New(`option "share" is more than 1`)
	}
	return nil
}

func (square) Sides() int     { return 4 }
func (wrap) Sides() int       { return 0 }
func (group) Sides() int      { return 0 }
func (late) Sides() int       { return 0 }
func (everything) Sides() int { return 0 }
func (picky) Sides() int      { return 0 }

func table() *registry.Table[shape] {
	t := registry.New[shape]("shape")
	t.Add("square", "four sides", square{Size: 1})
	t.Add("wrap", "one inside", wrap{In: square{Size: 1}, Times: 1})
	t.Add("group", "several", group{Parts: []shape{square{Size: 2}}})
	t.Add("late", "nested behind plain", late{Rate: 1})
	t.Add("everything", "all types", everything{Int: 3, Word: "x", At: []float64{1, 2}})
	t.Add("picky", "checks itself", picky{Share: 0.5})
	return t
}

// Text, the value it means, and the canonical text.
func TestParseAndSpec(t *testing.T) {
	tab := table()
	one := square{Size: 1}
	for _, c := range []struct {
		text string
		want shape
		spec string // if it is not text
	}{
		{"square", one, ""},
		{"square()", one, "square"},
		{" square ( size = 2 , filled = true ) ", square{2, true}, "square(size=2,filled=true)"},
		{"square(2,true)", square{2, true}, "square(size=2,filled=true)"},
		{"square(2,filled=true)", square{2, true}, "square(size=2,filled=true)"},
		{"square(SIZE=2)", square{Size: 2}, "square(size=2)"},
		{"square(size=1)", one, "square"},
		{"square(1e-05)", square{Size: 1e-5}, "square(size=1e-05)"},
		{"square(-0.1)", square{Size: -0.1}, "square(size=-0.1)"},
		{"square(size=+Inf)", square{Size: math.Inf(1)}, ""},
		{"wrap", wrap{one, 1}, "wrap(square)"},
		{"wrap(square(size=2),times=4)", wrap{square{Size: 2}, 4}, ""},
		{"wrap(square,4)", wrap{one, 4}, "wrap(square,times=4)"},
		{"wrap(times=4,in=square(2))", wrap{square{Size: 2}, 4}, "wrap(square(size=2),times=4)"},
		{"wrap(wrap(wrap(picky)))", wrap{wrap{wrap{picky{0.5}, 1}, 1}, 1}, ""},
		{"group", group{Parts: []shape{square{Size: 2}}}, "group(square(size=2))"},
		{"group(square,wrap(square),gap=2)", group{[]shape{one, wrap{one, 1}}, 2}, ""},
		{"group(parts=[square,picky],gap=2)", group{[]shape{one, picky{0.5}}, 2}, "group(square,picky,gap=2)"},
		{"group(parts=square)", group{Parts: []shape{one}}, "group(square)"},
		{"group(parts=[])", group{Parts: []shape{}}, ""},
		{"group(group(square),square)", group{Parts: []shape{group{Parts: []shape{one}}, one}}, ""},
		{"late(rate=2)", late{Rate: 2}, ""},
		{"late(first=square)", late{Rate: 1, First: one}, ""},
		{"late(then=square)", late{Rate: 1, Then: one}, ""},
		{"late(2,square,picky,square,wrap)", late{2, one, picky{0.5}, []shape{one, wrap{one, 1}}},
			"late(rate=2,first=square,then=picky,rest=[square,wrap(square)])"},
		{"everything(f64=0,bool=true,int=-1,small=127,uint=65535)",
			everything{Bool: true, Int: -1, Small: 127, Uint: 65535, Word: "x", At: []float64{1, 2}},
			"everything(bool=true,int=-1,small=127,uint=65535,f64=0)"},
		{"everything(f32=0.1,f64=0.1)", everything{Int: 3, F32: 0.1, F64: 0.1, Word: "x", At: []float64{1, 2}}, ""},
		{"everything(f64=0,word=a/b-c.d:e,wait=1.5ms)",
			everything{Int: 3, Word: "a/b-c.d:e", Wait: 1500 * time.Microsecond, At: []float64{1, 2}},
			"everything(f64=0,word=a/b-c.d:e,wait=1.5ms)"},
		{`everything(f64=0,word="python3 train.py (a, b) \"c\" \\d")`,
			everything{Int: 3, Word: `python3 train.py (a, b) "c" \d`, At: []float64{1, 2}}, ""},
		{`everything(f64=0,word="x y",names=["a","b c",d])`,
			everything{Int: 3, Word: "x y", At: []float64{1, 2}, Names: []string{"a", "b c", "d"}}, `everything(f64=0,word="x y",names=[a,"b c",d])`},
		{`everything(f64=0,word="")`, everything{Int: 3, At: []float64{1, 2}}, ""},
		{`wrap("square(size=2)")`, wrap{square{Size: 2}, 1}, "wrap(square(size=2))"},
		{"everything(f64=0,at=[30,60,80],names=[a,b])",
			everything{Int: 3, Word: "x", At: []float64{30, 60, 80}, Names: []string{"a", "b"}}, ""},
		{"everything(f64=0,at=30)", everything{Int: 3, Word: "x", At: []float64{30}}, "everything(f64=0,at=[30])"},
		{"everything(f64=0,at=[])", everything{Int: 3, Word: "x", At: []float64{}}, ""},
		{"everything(f64=0,color=7,httpport=80)",
			everything{Int: 3, Word: "x", At: []float64{1, 2}, Color: 7, HTTPPort: 80}, ""},
	} {
		if c.spec == "" {
			c.spec = c.text
		}
		got, err := tab.Parse(c.text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s means %+v, want %+v", c.text, got, c.want)
		}
		spec := tab.Spec(got)
		back, err := tab.Parse(spec)
		if err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%s prints as %s, which means %+v (%v)", c.text, spec, back, err)
		}
		if spec != c.spec {
			t.Errorf("%s prints as %s, want %s", c.text, spec, c.spec)
		}
	}
}

// The default of a prototype is never written through.
func TestPrototypesStay(t *testing.T) {
	tab := table()
	before := fmt.Sprintf("%+v", tab.Entries())
	for _, text := range []string{"group(square,square)", "group(picky)", "everything(at=[9])", "wrap(picky)"} {
		tab.MustParse(text)
	}
	if after := fmt.Sprintf("%+v", tab.Entries()); after != before {
		t.Errorf("defaults changed from\n%s\nto\n%s", before, after)
	}
}

func TestErrors(t *testing.T) {
	tab := table()
	for text, want := range map[string]string{
		"":                             `want a name or a value at the end`,
		"sqare":                        `no shape named "sqare"; did you mean "square"? there are: everything, group, late, picky, square, wrap`,
		"Square":                       `did you mean "square"`,
		"zzzzzzzzzz":                   `no shape named "zzzzzzzzzz"; there are: everything`,
		"[square]":                     `no shape named`,
		"square(sise=2)":               `square has no option "sise"; did you mean "size"? there are: filled, size`,
		"square(size=2,size=3)":        `option "size" given twice`,
		"square(2,size=3)":             `option "size" given twice`,
		"group(square,parts=[square])": `option "parts" given twice`,
		"square(1,true,3)":             `takes 2 argument(s) at most; "3" is one too many`,
		"square(size=2,true)":          `positional argument "true" after a named one`,
		"square(size=big)":             `option "size": want a number, not "big"`,
		"square(size=NaN)":             `want a number`,
		"square(size=1e999)":           `want a number`,
		"square(size=)":                `want a name or a value at ")"`,
		"square(size=square)":          `want a number, not "square"`,
		"square(size=square(2))":       `want a plain number`,
		"square(size=[1,2])":           `want a plain number`,
		"square(filled=2)":             `want true or false`,
		"square(":                      `want a name or a value at the end`,
		"square(size=2":                `missing ')' at the end`,
		"square)":                      `unexpected ")" after it`,
		"square(2))":                   `unexpected ")" after it`,
		"square square":                `unexpected "square" after it`,
		"square(2,)":                   `want a name or a value at ")"`,
		"square(,2)":                   `want a name or a value at ",2)"`,
		"square(size 2)":               `want ')' or "," at "2)"; text with a blank in it stands in double quotes`,
		"square(size[2":                `want ')' or "," at "[2"`,
		"square(size=0,1)":             `positional argument "1" after a named one; did you mean size=0.1? A comma ends an option`,
		"square(a(1)=2)":               `a key is a plain word`,
		"square([1]=2)":                `a key is a plain word`,
		"wrap(2)":                      `no shape named "2"`,
		"wrap(wrap(sqare))":            `did you mean "square"`,
		"wrap(in=[square])":            `no shape named`,
		"group(square,triangle)":       `no shape named "triangle"`,
		"everything(small=128)":        `want a whole number, not "128"`,
		"everything(int=1.5)":          `want a whole number`,
		"everything(uint=-1)":          `want a whole number ≥ 0`,
		"everything(f32=1e39)":         `want a number`,
		"everything(wait=5)":           `want a duration such as 250us`,
		"everything(at=[1,b])":         `want a number, not "b"`,
		"everything(at=[a=1])":         `a list has no keys ("a")`,
		"everything(hidden=1)":         `no option "hidden"`,
		"everything(skipped=1)":        `no option "skipped"`,
		"picky(share=2)":               `picky: option "share" is more than 1`,
		"wrap(picky(2))":               `option "share" is more than 1`,
		strings.Repeat("wrap(", 100):   `nested deeper than 64`,
		strings.Repeat("[", 1000):      `nested deeper than 64`,
		"wrap(in=" + strings.Repeat("z", 1<<16) + ")": `no shape named`,
	} {
		v, err := tab.Parse(text)
		switch {
		case err == nil:
			t.Errorf("%.60s was taken as %+v", text, v)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%.60s:\n got %.200v\nwant …%s…", text, err, want)
		case !strings.HasPrefix(err.Error(), "shape "):
			t.Errorf("%.60s: the message does not begin with the kind: %.100v", text, err)
		case v != nil:
			t.Errorf("%.60s: a value beside the error", text)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustParse took nonsense")
		}
	}()
	tab.MustParse("nonsense")
}

func TestAddPanics(t *testing.T) {
	type other struct{ square }
	for what, c := range map[string]struct {
		add  func(*registry.Table[shape])
		want string
	}{
		"a name taken": {func(t *registry.Table[shape]) { t.Add("square", "", other{}) }, `shape "square" registered twice`},
		"a type taken": {func(t *registry.Table[shape]) { t.Add("box", "", square{}) }, `registered as "square" and "box"`},
		"a pointer":    {func(t *registry.Table[shape]) { t.Add("pointer", "", &other{}) }, `must be a struct value`},
		"nil":          {func(t *registry.Table[shape]) { t.Add("nil", "", nil) }, `must be a struct value`},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("%s: %s, want …%s…", what, got, c.want)
				}
			}()
			c.add(table())
		}()
	}
}

func TestListing(t *testing.T) {
	tab := table()
	if got := strings.Join(tab.Names(), " "); got != "everything group late picky square wrap" {
		t.Errorf("names %s", got)
	}
	if tab.Kind() != "shape" || tab.Name(square{}) != "square" || tab.Name(nil) != "" {
		t.Errorf("kind %q, name %q, name of nil %q", tab.Kind(), tab.Name(square{}), tab.Name(nil))
	}
	if p, ok := tab.Proto("square"); !ok || p != (square{Size: 1}) {
		t.Errorf("prototype %v, %v", p, ok)
	}
	if _, ok := tab.Proto("nosuch"); ok {
		t.Error("a prototype of nothing")
	}
	if got := tab.Spec(nil); got != "" {
		t.Errorf("nil prints as %q", got)
	}
	type stranger struct{ square }
	if got := tab.Spec(stranger{}); got != "registry_test.stranger" {
		t.Errorf("a stranger prints as %q", got)
	}
	types := map[string]string{}
	for _, e := range tab.Entries() {
		for _, p := range e.Params {
			types[e.Name+"."+p.Key] = p.Type + " " + p.Default
		}
	}
	for key, want := range map[string]string{
		"square.size": "number 1", "square.filled": "bool false", "wrap.in": "shape square", "wrap.times": "integer 1",
		"group.parts": "list of shape [square(size=2)]", "everything.wait": "duration 0s", "everything.word": "word x",
		"everything.at": "list of number [1,2]", "everything.color": "integer 0", "late.first": "shape ",
	} {
		if types[key] != want {
			t.Errorf("%s is listed as %q, want %q", key, types[key], want)
		}
	}
}

// Untried names what a list of values leaves at its default, nested ones counted.
func TestUntried(t *testing.T) {
	tab := table()
	all := strings.Join(tab.Untried(), " ")
	if all != strings.Join(tab.Names(), " ") {
		t.Errorf("of nothing: %s", all)
	}
	got := tab.Untried(tab.MustParse("wrap(square(size=2,filled=true))"), tab.MustParse("group(late(first=square),gap=7)"))
	for _, key := range []string{"square", "square: size", "square: filled", "group", "group: gap", "late", "late: first"} {
		if slices.Contains(got, key) {
			t.Errorf("%s was tried, but is listed: %v", key, got)
		}
	}
	for _, key := range []string{"everything", "wrap: times", "late: rate"} {
		if !slices.Contains(got, key) {
			t.Errorf("%s was not tried, but is not listed: %v", key, got)
		}
	}
}

// Untried names two options that are the same number in all values.
func TestUntriedPairs(t *testing.T) {
	tab := registry.New[any]("pair")
	tab.Add("pair", "two numbers", struct {
		Beta, Gamma float64
		Size        int
	}{0.9, 0.9, 1})
	same, apart := tab.MustParse("pair(beta=0.5,gamma=0.5,size=2)"), tab.MustParse("pair(beta=0.5,gamma=0.6,size=2)")
	if got := tab.Untried(same); !slices.Equal(got, []string{"pair: beta and gamma"}) {
		t.Errorf("of options that share a value: %v", got)
	}
	if got := tab.Untried(same, apart); got != nil {
		t.Errorf("of options that differ once: %v", got)
	}
}

func TestSplitTop(t *testing.T) {
	for text, want := range map[string][]string{
		"":                               nil,
		"  ":                             nil,
		"raw":                            {"raw"},
		"raw,topk(keep=0.1,index=rice)":  {"raw", "topk(keep=0.1,index=rice)"},
		" a , b(c,[d,e]) ,f=[g,h]":       {"a", "b(c,[d,e])", "f=[g,h]"},
		"a,,b":                           {"a", "", "b"},
		",a":                             {"", "a"},
		"a,":                             {"a", ""},
		"a(b,c":                          {"a(b,c"},
		`a("b, c)",d),"e,\",f",g`:        {`a("b, c)",d)`, `"e,\",f"`, "g"},
		"feedback(topk(0.1)),chain(a,b)": {"feedback(topk(0.1))", "chain(a,b)"},
	} {
		if got := registry.SplitTop(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"topk", "randk", "qsgd"}
	for s, want := range map[string]string{
		"topq": "topk", "TOPK": "topk", "rank": "randk", "sgd": "qsgd", "something else": "",
	} {
		if got := registry.Nearest(s, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", s, got, want)
		}
	}
	if got := registry.Suggest("x", nil); got != "there are none" {
		t.Errorf("of nothing: %q", got)
	}
	if got := registry.Suggest("topq", names); got != `did you mean "topk"? there are: qsgd, randk, topk` {
		t.Errorf("got %q", got)
	}
}

// Whatever comes in, there is a value whose text means the same, or an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"square", "wrap(square(2),times=4)", "group(square,wrap(square),gap=2)", "late(2,square,picky,square)",
		"everything(at=[1,2],names=[a,b],wait=1s,f32=0.1)", "group(parts=[])", "((((", "[[,]]", "square(size=1e-400)",
		"everything(word=\x80é)", "a=b", "wrap(in=wrap(in=picky))", "square(size=0x1p-3)", "everything(word=\r)",
		`everything(word="a b\"c")`, `everything(word="\x80,")`, `wrap("square(2)")`,
	} {
		f.Add(s)
	}
	tab := table()
	f.Fuzz(func(t *testing.T, s string) {
		v, err := tab.Parse(s)
		registry.SplitTop(s)
		if err != nil {
			return
		}
		spec := tab.Spec(v)
		back, err := tab.Parse(spec)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", s, spec, err)
		}
		if again := tab.Spec(back); again != spec {
			t.Fatalf("%q prints as %q, and that as %q", s, spec, again)
		}
	})
}

// Parts are those that specs have inside them, in order.
func TestParts(t *testing.T) {
	tab := table()
	for text, want := range map[string]string{
		"square(size=2)":                          "square(size=2)",
		"wrap(wrap(square))":                      "wrap(wrap(square)) wrap(square) square",
		"group(wrap(picky),square(size=3),gap=2)": "group(wrap(picky),square(size=3),gap=2) wrap(picky) picky square(size=3)",
	} {
		var got, specs []string
		for _, p := range tab.Parts(tab.MustParse(text)) {
			got = append(got, tab.Spec(p))
		}
		for _, w := range strings.Fields(want) {
			specs = append(specs, tab.Spec(tab.MustParse(w)))
		}
		if !slices.Equal(got, specs) {
			t.Errorf("parts of %s: %v, want %v", text, got, specs)
		}
	}
	if tab.Parts(nil) != nil || len(tab.Parts(loose{})) != 1 {
		t.Error("of what is nothing, or not enrolled")
	}
}

type loose struct{}

func (loose) Sides() int { return 0 }

// With sets one option wherever it lies, and refuses to guess.
func TestWith(t *testing.T) {
	tab := table()
	for _, c := range []struct{ text, option, value, want string }{
		{"square", "size", "3", "square(size=3)"},
		{"square(size=2)", "Filled", "true", "square(size=2,filled=true)"},
		{"wrap(square,times=3)", "size", "5", "wrap(square(size=5),times=3)"},
		{"wrap(square,times=3)", "times", "4", "wrap(square,times=4)"},
		{"wrap(square,times=3)", "in", "picky(share=0.5)", "wrap(picky(share=0.5),times=3)"},
		{"group(parts=[square,wrap(picky)],gap=2)", "share", "0.25", "group(square,wrap(picky(share=0.25)),gap=2)"},
	} {
		v := tab.MustParse(c.text)
		got, err := tab.With(v, c.option, c.value)
		if err != nil || tab.Spec(got) != tab.Spec(tab.MustParse(c.want)) {
			t.Errorf("%s with %s=%s: %v, %v", c.text, c.option, c.value, got, err)
		}
		if tab.Spec(v) != tab.Spec(tab.MustParse(c.text)) {
			t.Errorf("%s was changed to %s", c.text, tab.Spec(v))
		}
	}
	for _, c := range []struct{ text, option, value, want string }{
		{"square", "sise", "3", "did you mean"},
		{"group(square,square)", "size", "3", "several options"},
		{"wrap(picky)", "share", "2", "more than 1"},
		{"square", "size", "x", "want a number"},
		{"square", "size", "3)", "unexpected"},
		{"square", "size", "", "want a name or a value"},
	} {
		if got, err := tab.With(tab.MustParse(c.text), c.option, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s=%s: %v, %v; want %q", c.text, c.option, c.value, got, err, c.want)
		}
	}
}

// Corner and Frame are option structs that others embed.
type (
	Corner struct {
		Round float64 `doc:"radius"`
	}
	Frame struct {
		Width int
		Corner
	}
	framed struct {
		Size float64
		Frame
	}
)

func (framed) Sides() int { return 4 }

// The options of embedded structs stand in their place, by position and by name.
func TestEmbeddedOptions(t *testing.T) {
	tab := table()
	tab.Add("framed", "four sides in a frame", framed{1, Frame{2, Corner{3}}})
	for _, c := range []struct {
		text, spec string
		want       framed
	}{
		{"framed", "framed", framed{1, Frame{2, Corner{3}}}},
		{"framed(5,6,7)", "framed(size=5,width=6,round=7)", framed{5, Frame{6, Corner{7}}}},
		{"framed(round=0.5)", "framed(round=0.5)", framed{1, Frame{2, Corner{0.5}}}},
	} {
		got, err := tab.Parse(c.text)
		if err != nil || got != c.want || tab.Spec(got) != c.spec {
			t.Errorf("%s: %v, %v, %s", c.text, got, err, tab.Spec(got))
		}
	}
	if p, _ := tab.Proto("framed"); p != (framed{1, Frame{2, Corner{3}}}) {
		t.Errorf("the prototype has changed: %v", p)
	}
	if got := tab.Untried(tab.MustParse("framed(width=3)")); !slices.Contains(got, "framed: round") || slices.Contains(got, "framed: width") {
		t.Errorf("untried: %v", got)
	}
	with, err := tab.With(tab.MustParse("wrap(framed)"), "round", "9")
	if err != nil || tab.Spec(with) != "wrap(framed(round=9))" {
		t.Errorf("with: %v, %v", tab.Spec(with), err)
	}
}

// tone reads and writes text of its own.
type tone float64

func (v *tone) UnmarshalText(b []byte) error {
	text, ok := strings.CutSuffix(string(b), "Hz")
	if !ok {
		return errors.New("want a tone such as 440Hz")
	}
	_, err := fmt.Sscan(text, (*float64)(v))
	return err
}

func (v tone) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%gHz", float64(v)), nil }

type bell struct{ Tone tone }

func (bell) Sides() int { return 0 }

// An option whose type reads and writes text is read and written by it.
func TestOptionsThatAreText(t *testing.T) {
	tab := registry.New[shape]("shape")
	tab.Add("bell", "it rings", bell{Tone: 440})
	b, err := tab.Parse("bell(tone=220.5Hz)")
	if err != nil || b != shape(bell{Tone: 220.5}) || tab.Spec(b) != "bell(tone=220.5Hz)" || tab.Spec(bell{Tone: 440}) != "bell" {
		t.Errorf("%v, %v: %s", b, err, tab.Spec(b))
	}
	if b, err = tab.With(b, "tone", "2Hz"); err != nil || b != shape(bell{Tone: 2}) {
		t.Errorf("%v, %v", b, err)
	}
	if _, err := tab.Parse("bell(tone=high)"); err == nil || !strings.Contains(err.Error(), `option "tone": want a tone such as 440Hz`) {
		t.Errorf("%v", err)
	}
	if p := tab.Entries()[0].Params[0]; p.Type != "tone" || p.Default != "440Hz" {
		t.Errorf("%+v", p)
	}
}

// filter is a spec of another table.
type filter interface{ Cut() int }

type low struct{ Hz, Order int }

func (f low) Cut() int { return f.Hz }

var filters = func() *registry.Table[filter] {
	t := registry.New[filter]("filter")
	t.Add("low", "it lets low tones pass", low{Hz: 50, Order: 1})
	return t
}()

type filtered struct{ filter }

func (f *filtered) UnmarshalText(b []byte) (err error) {
	f.filter, err = filters.Parse(string(b))
	return err
}

func (f filtered) MarshalText() ([]byte, error) { return []byte(filters.Spec(f.filter)), nil }

type horn struct {
	Through filtered
	Bends   int
}

func (horn) Sides() int { return 0 }

// An option that reads its own text may be a spec of another table, with or without quotes.
func TestSpecsOfAnotherTable(t *testing.T) {
	tab := registry.New[shape]("shape")
	tab.Add("horn", "it calls", horn{Through: filtered{low{50, 1}}})
	want := shape(horn{filtered{low{60, 2}}, 3})
	for _, text := range []string{"horn(through=low( hz=60, order=2),bends=3)", `horn(through="low(hz=60,order=2)",bends=3)`} {
		h, err := tab.Parse(text)
		if err != nil || h != want || tab.Spec(h) != "horn(through=low(hz=60,order=2),bends=3)" {
			t.Errorf("%s: %v, %v: %s", text, h, err, tab.Spec(h))
		}
	}
	if _, err := tab.Parse("horn(through=low(pitch=3))"); err == nil || !strings.Contains(err.Error(), `option "through"`) {
		t.Errorf("%v", err)
	}
}

// Watch sees every text that a table parses, right or wrong, and nothing once it is stopped.
func TestWatch(t *testing.T) {
	tab := table()
	var seen []string
	stop := registry.Watch(func(kind, text string) { seen = append(seen, kind+" "+text) })
	tab.MustParse("wrap(square(2))")
	_, _ = tab.Parse("no such")
	stop()
	tab.MustParse("square")
	if want := []string{"shape wrap(square(2))", "shape no such"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}
