// Package registry turns option structs into names and spec text and back.
//
// A Table holds one prototype (an option struct with its defaults filled in)
// per name. The text a person types,
//
//	feedback(topk(keep=0.01))
//
// is the same in a recipe, on the command line, in a result row and in a
// benchmark's name. The grammar:
//
//	spec  = name [ "(" [ arg { "," arg } ] ")" ]
//	arg   = value | key "=" value
//	value = spec | "[" [ value { "," value } ] "]" | bare word, number, bool or quoted text
//
// Text with blanks, commas, brackets or = in it stands in double quotes, with \" for a
// quote and \\ for a backslash: command="python3 train.py". Quotes that are not needed
// change nothing.
//
// Positional arguments fill the struct's fields in declaration order; a slice
// of nested specs takes all remaining positional arguments. Keys are
// lower_snake and matched without case. Parse and Spec round-trip:
// Parse(Spec(v)) == v.
package registry

import (
	"encoding"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Validator is implemented by option structs that can check themselves.
// Validate is called after a spec has been parsed; its error should say which
// key is wrong and what is allowed.
type Validator interface{ Validate() error }

// Table maps names to prototypes of one kind ("codec", "optimizer", …). The
// zero value is not usable; call New. A Table is filled by package-level
// variables at start-up and only read afterwards, so it needs no lock.
type Table[T any] struct {
	kind    string
	protos  map[string]T
	about   map[string]string
	byType  map[reflect.Type]string
	ordered []string
}

// New returns an empty table. kind is the noun used in messages.
func New[T any](kind string) *Table[T] {
	return &Table[T]{
		kind: kind, protos: map[string]T{}, about: map[string]string{},
		byType: map[reflect.Type]string{},
	}
}

// Kind returns the noun the table was made with.
func (t *Table[T]) Kind() string { return t.kind }

// Add enrols proto, a struct value holding the defaults, under name. about is
// one line for `gradlab list`. Add is meant for package-level variables and
// panics on a name or a type that is taken, or on a prototype that is not a
// plain struct: both are programming errors found by any test run.
func (t *Table[T]) Add(name, about string, proto T) T {
	v := reflect.ValueOf(proto)
	if v.Kind() != reflect.Struct {
		panic(fmt.Sprintf("registry: %s %q must be a struct value, not %T", t.kind, name, proto))
	}
	if _, dup := t.protos[name]; dup {
		panic(fmt.Sprintf("registry: %s %q registered twice", t.kind, name))
	}
	if other, dup := t.byType[v.Type()]; dup {
		panic(fmt.Sprintf("registry: %s type %T registered as %q and %q", t.kind, proto, other, name))
	}
	t.protos[name], t.about[name], t.byType[v.Type()] = proto, about, name
	t.ordered = append(t.ordered, name)
	sort.Strings(t.ordered)
	return proto
}

// Names lists what is enrolled, sorted.
func (t *Table[T]) Names() []string { return append([]string(nil), t.ordered...) }

// Proto returns the prototype enrolled under name.
func (t *Table[T]) Proto(name string) (T, bool) { p, ok := t.protos[name]; return p, ok }

// Name returns the name v's type is enrolled under, "" if it is not.
func (t *Table[T]) Name(v T) string { return t.byType[reflect.TypeOf(v)] }

// Untried lists what values leave out: names that none of them is of; as "name: key",
// options that none of them sets to something else than the default; and as "name: key
// and key", two options with numbers that have the same value in all of them, so that code
// which takes one for the other is not found. Values nested in values count. A test that
// tries every value, and finds nothing untried, has tried every option of everything
// enrolled.
func (t *Table[T]) Untried(values ...T) []string {
	tried := map[string]bool{}
	var try func(v reflect.Value)
	try = func(v reflect.Value) {
		name, ok := t.byType[v.Type()]
		if !ok {
			return
		}
		tried[name] = true
		def := reflect.ValueOf(t.protos[name])
		for _, f := range fields(v.Type()) {
			fv := v.FieldByIndex(f.index)
			if !reflect.DeepEqual(fv.Interface(), def.FieldByIndex(f.index).Interface()) {
				tried[name+": "+f.key] = true
			}
			for _, g := range fields(v.Type()) {
				if confusable(f, g) && !fv.Equal(v.FieldByIndex(g.index)) {
					tried[name+": "+f.key+" and "+g.key] = true
				}
			}
			switch {
			case t.nested(f.typ) && !fv.IsNil():
				try(fv.Elem())
			case f.typ.Kind() == reflect.Slice && t.nested(f.typ.Elem()):
				for i := range fv.Len() {
					try(fv.Index(i).Elem())
				}
			}
		}
	}
	for _, v := range values {
		try(reflect.ValueOf(v))
	}
	var out []string
	for _, name := range t.ordered {
		if !tried[name] {
			out = append(out, name)
			continue
		}
		for _, f := range fields(reflect.TypeOf(t.protos[name])) {
			if k := name + ": " + f.key; !tried[k] {
				out = append(out, k)
			}
			for _, g := range fields(reflect.TypeOf(t.protos[name])) {
				if k := name + ": " + f.key + " and " + g.key; f.key < g.key && confusable(f, g) && !tried[k] {
					out = append(out, k)
				}
			}
		}
	}
	return out
}

// confusable reports whether code that takes one option for the other compiles.
func confusable(a, b field) bool {
	return a.key != b.key && a.typ == b.typ && (a.typ.Kind() == reflect.Float64 || a.typ.Kind() == reflect.Int)
}

// Param describes one option of an entry.
type Param struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default"`
	Doc     string `json:"doc,omitempty"`
}

// Entry describes one name for listings.
type Entry struct {
	Name   string  `json:"name"`
	About  string  `json:"about"`
	Spec   string  `json:"spec"`
	Params []Param `json:"params,omitempty"`
	Type   string  `json:"-"` // of the prototype: import path, a dot, and its name
}

// Entries describes everything enrolled, sorted by name.
func (t *Table[T]) Entries() []Entry {
	var out []Entry
	for _, n := range t.ordered {
		p := t.protos[n]
		e := Entry{Name: n, About: t.about[n], Spec: t.Spec(p)}
		v := reflect.ValueOf(p)
		e.Type = v.Type().PkgPath() + "." + v.Type().Name()
		for _, f := range fields(v.Type()) {
			e.Params = append(e.Params, Param{
				Key: f.key, Type: t.typeName(f.typ), Default: t.format(v.FieldByIndex(f.index)), Doc: f.doc,
			})
		}
		out = append(out, e)
	}
	return out
}

func (t *Table[T]) typeName(rt reflect.Type) string {
	switch {
	case t.nested(rt):
		return t.kind
	case rt.Kind() == reflect.Slice:
		return "list of " + t.typeName(rt.Elem())
	case rt == durationType:
		return "duration"
	case reflect.PointerTo(rt).Implements(textType):
		return strings.ToLower(rt.Name())
	}
	switch rt.Kind() {
	case reflect.Float64, reflect.Float32:
		return "number"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "word"
	}
	return "integer"
}

type field struct {
	key, doc string
	index    []int
	show     bool
	typ      reflect.Type
}

// fields reads the `spec:"key,show"` and `doc:"…"` tags. Without a tag the key
// is the field's name in lower_snake. `show` prints the field even when it has
// its default value. The fields of an embedded struct stand in its place.
func fields(rt reflect.Type) []field {
	var out []field
	for i := 0; i < rt.NumField(); i++ {
		sf := rt.Field(i)
		tag := sf.Tag.Get("spec")
		if !sf.IsExported() || tag == "-" {
			continue
		}
		if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			for _, f := range fields(sf.Type) {
				f.index = append([]int{i}, f.index...)
				out = append(out, f)
			}
			continue
		}
		parts := strings.Split(tag, ",")
		f := field{key: parts[0], doc: sf.Tag.Get("doc"), index: []int{i}, typ: sf.Type}
		if f.key == "" {
			f.key = snake(sf.Name)
		}
		for _, p := range parts[1:] {
			f.show = f.show || p == "show"
		}
		out = append(out, f)
	}
	return out
}

func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 && !(s[i-1] >= 'A' && s[i-1] <= 'Z') {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (t *Table[T]) nested(rt reflect.Type) bool {
	return rt == reflect.TypeOf((*T)(nil)).Elem()
}

// Spec prints v in canonical form: nested specs by position where they stand
// first, other fields as key=value where they differ from the default or are
// marked "show". A value
// whose type is not enrolled prints as its Go type.
func (t *Table[T]) Spec(v T) string {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return ""
	}
	name, ok := t.byType[rv.Type()]
	if !ok {
		return fmt.Sprintf("%T", v)
	}
	def := reflect.ValueOf(t.protos[name])
	var args []string
	byPlace := true // nothing named yet and nothing left out
	for _, f := range fields(rv.Type()) {
		fv, dv := rv.FieldByIndex(f.index), def.FieldByIndex(f.index)
		nested, list := t.nested(f.typ), f.typ.Kind() == reflect.Slice && t.nested(f.typ.Elem())
		switch {
		case nested && fv.IsNil(), list && fv.Len() == 0 && dv.Len() == 0:
		case nested && byPlace:
			args = append(args, t.format(fv))
			continue
		case list && byPlace && fv.Len() > 0: // and it would take what follows
			for i := range fv.Len() {
				args = append(args, t.format(fv.Index(i)))
			}
		case nested || f.show || !reflect.DeepEqual(fv.Interface(), dv.Interface()):
			args = append(args, f.key+"="+t.format(fv))
		}
		byPlace = false
	}
	if len(args) == 0 {
		return name
	}
	return name + "(" + strings.Join(args, ",") + ")"
}

func (t *Table[T]) format(v reflect.Value) string {
	switch {
	case t.nested(v.Type()):
		if v.IsNil() {
			return ""
		}
		return t.Spec(v.Interface().(T))
	case v.Type() == durationType:
		return time.Duration(v.Int()).String()
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return bare(string(b))
		}
	}
	switch v.Kind() {
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = t.format(v.Index(i))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
	case reflect.String: // and not what a String method says
		return quote(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	}
	return fmt.Sprint(v.Interface())
}

// Parse reads spec text. Errors name the key or name that is wrong, what is
// allowed, and the nearest spelling.
func (t *Table[T]) Parse(text string) (T, error) {
	var zero T
	if seen := watching.Load(); seen != nil {
		(*seen)(t.kind, text)
	}
	p := parser{s: text}
	n, err := p.whole()
	if err != nil {
		return zero, fmt.Errorf("%s %q: %w", t.kind, text, err)
	}
	v, err := t.build(n)
	if err != nil {
		return zero, fmt.Errorf("%s %q: %w", t.kind, text, err)
	}
	return v, nil
}

var watching atomic.Pointer[func(kind, text string)]

// Watch calls seen with the kind and the text of each Parse of any table, until the returned
// function is called: a test counts with it how often a text is read. seen may be called by
// several goroutines at a time. A second Watch takes the place of the first.
func Watch(seen func(kind, text string)) (stop func()) {
	watching.Store(&seen)
	return func() { watching.Store(nil) }
}

// MustParse is Parse for constants in code and tests; it panics on an error.
func (t *Table[T]) MustParse(text string) T {
	v, err := t.Parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

// UnknownError is a name, or an option, that there is not.
type UnknownError struct {
	Kind  string   // the table's noun
	Of    string   // the name that has no such option; "": there is no such name
	Word  string   // what was typed
	There []string // what there is instead
}

// Error says what there is, and what is spelled most alike.
func (e *UnknownError) Error() string {
	if e.Of == "" {
		return fmt.Sprintf("no %s named %q; %s", e.Kind, e.Word, Suggest(e.Word, e.There))
	}
	return fmt.Sprintf("%s has no option %q; %s", e.Of, e.Word, Suggest(e.Word, e.There))
}

// comma asks whether the comma before digits was meant as a decimal point: lr=0,1.
func comma(before []arg, a arg) string {
	last := before[len(before)-1]
	if digits(a.text) && digits(strings.TrimPrefix(last.text, "-")) && last.key != "" {
		return fmt.Sprintf("; did you mean %s=%s.%s? A comma ends an option", last.key, last.text, a.text)
	}
	return ""
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (t *Table[T]) build(n node) (T, error) {
	var zero T
	proto, ok := t.protos[n.text]
	if !ok || n.list {
		return zero, &UnknownError{t.kind, "", n.text, t.ordered}
	}
	out := reflect.New(reflect.TypeOf(proto)).Elem()
	out.Set(reflect.ValueOf(proto))
	fs := fields(out.Type())
	keys := make([]string, len(fs))
	for i, f := range fs {
		keys[i] = f.key
	}
	seen := map[string]bool{}
	pos, named := 0, false
	for i, a := range n.args {
		var f *field
		if a.key != "" {
			named = true
			for i := range fs {
				if strings.EqualFold(fs[i].key, a.key) {
					f = &fs[i]
				}
			}
			if f == nil {
				return zero, &UnknownError{t.kind, n.text, a.key, keys}
			}
			if seen[f.key] {
				return zero, fmt.Errorf("%s: option %q given twice", n.text, f.key)
			}
		} else {
			if named {
				return zero, fmt.Errorf("%s: positional argument %q after a named one%s", n.text, a.text, comma(n.args[:i], a))
			}
			if pos >= len(fs) {
				return zero, fmt.Errorf("%s takes %d argument(s) at most; %q is one too many", n.text, len(fs), a.text)
			}
			f = &fs[pos]
			if f.typ.Kind() == reflect.Slice && t.nested(f.typ.Elem()) {
				fv := out.FieldByIndex(f.index)
				if !seen[f.key] {
					fv.Set(reflect.Zero(f.typ))
				}
				el := reflect.New(f.typ.Elem()).Elem()
				if err := t.set(el, a.node); err != nil {
					return zero, fmt.Errorf("%s: %w", n.text, err)
				}
				fv.Set(reflect.Append(fv, el))
				seen[f.key] = true
				continue
			}
			pos++
		}
		seen[f.key] = true
		if err := t.set(out.FieldByIndex(f.index), a.node); err != nil {
			return zero, fmt.Errorf("%s: option %q: %w", n.text, f.key, err)
		}
	}
	v := out.Interface().(T)
	if c, ok := any(v).(Validator); ok {
		if err := c.Validate(); err != nil {
			return zero, fmt.Errorf("%s: %w", n.text, err)
		}
	}
	return v, nil
}

func (t *Table[T]) set(dst reflect.Value, n node) error {
	rt := dst.Type()
	if t.nested(rt) {
		if n.quoted { // a spec in quotes is the spec
			p := parser{s: n.text}
			var err error
			if n, err = p.whole(); err != nil {
				return err
			}
		}
		v, err := t.build(n)
		if err != nil {
			return err
		}
		dst.Set(reflect.ValueOf(v))
		return nil
	}
	if rt.Kind() == reflect.Slice {
		if !n.list {
			n = node{list: true, args: []arg{{node: n}}}
		}
		s := reflect.MakeSlice(rt, len(n.args), len(n.args))
		for i, a := range n.args {
			if a.key != "" {
				return fmt.Errorf("a list has no keys (%q)", a.key)
			}
			if err := t.set(s.Index(i), a.node); err != nil {
				return err
			}
		}
		dst.Set(s)
		return nil
	}
	if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok && n.source != "" { // it may read specs of another table
		return u.UnmarshalText([]byte(n.source))
	}
	if n.list || len(n.args) > 0 {
		return fmt.Errorf("want a plain %s, not %q with brackets (on a command line choice, double, lin, log, range make several values)", t.typeName(rt), n.text)
	}
	return SetScalar(dst, n.text)
}

// SetScalar stores text in dst, a bool, integer, float, string or
// time.Duration, or of a type that reads and writes text. The error says what was wanted.
func SetScalar(dst reflect.Value, text string) error {
	bad := func(want string) error { return fmt.Errorf("want %s, not %q", want, text) }
	if dst.Type() == durationType {
		d, err := time.ParseDuration(text)
		if err != nil {
			return bad("a duration such as 250us or 1.5s")
		}
		dst.SetInt(int64(d))
		return nil
	}
	if dst.CanAddr() {
		if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return u.UnmarshalText([]byte(text))
		}
	}
	switch dst.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return bad("true or false")
		}
		dst.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil || dst.OverflowInt(i) {
			return bad("a whole number")
		}
		dst.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, err := strconv.ParseUint(text, 10, 64)
		if err != nil || dst.OverflowUint(i) {
			return bad("a whole number ≥ 0")
		}
		dst.SetUint(i)
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(text, dst.Type().Bits())
		if err != nil || x != x {
			return bad("a number")
		}
		dst.SetFloat(x)
	case reflect.String:
		dst.SetString(text)
	default:
		return fmt.Errorf("registry: options of type %s are not supported", dst.Type())
	}
	return nil
}
