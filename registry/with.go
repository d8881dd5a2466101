package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// With is v with one of its options, or of the specs inside it, set to a value
// written as text. There must be exactly one option of that name: none is an error
// that lists those there are, and of several nobody could say which is meant.
func (t *Table[T]) With(v T, option, text string) (T, error) {
	var zero T
	p := parser{s: text}
	n, err := p.whole()
	if err != nil {
		return zero, fmt.Errorf("%q: %w", text, err)
	}
	var found, there []string
	out, err := t.with(v, option, n, &found, &there)
	switch {
	case len(found) > 1:
		return zero, fmt.Errorf("%s has several options %q, of %s; write the values into the spec itself", t.Spec(v), option, strings.Join(found, " and "))
	case err != nil:
		return zero, err
	case len(found) == 0 && len(there) == 0:
		return zero, fmt.Errorf("%s has no options", t.Spec(v))
	case len(found) == 0:
		return zero, fmt.Errorf("%s has no option %q; %s", t.Spec(v), option, Suggest(option, there))
	}
	return out, nil
}

// with sets the option wherever it is, and notes the names of the specs that have
// it and the options that there are.
func (t *Table[T]) with(v T, option string, n node, found, there *[]string) (T, error) {
	var zero T
	name := t.Name(v)
	if name == "" {
		return v, nil
	}
	out := reflect.New(reflect.TypeOf(v)).Elem()
	out.Set(reflect.ValueOf(v))
	for _, f := range fields(out.Type()) {
		if !slices.Contains(*there, f.key) {
			*there = append(*there, f.key)
		}
		fv := out.FieldByIndex(f.index)
		switch {
		case strings.EqualFold(f.key, option):
			*found = append(*found, name)
			if err := t.set(fv, n); err != nil {
				return zero, fmt.Errorf("%s: option %q: %w", name, f.key, err)
			}
		case t.nested(f.typ) && !fv.IsNil():
			in, err := t.with(fv.Interface().(T), option, n, found, there)
			if err != nil {
				return zero, err
			}
			fv.Set(reflect.ValueOf(in))
		case f.typ.Kind() == reflect.Slice && t.nested(f.typ.Elem()):
			all := reflect.MakeSlice(f.typ, fv.Len(), fv.Len())
			for i := range fv.Len() {
				in, err := t.with(fv.Index(i).Interface().(T), option, n, found, there)
				if err != nil {
					return zero, err
				}
				all.Index(i).Set(reflect.ValueOf(in))
			}
			if fv.Len() > 0 {
				fv.Set(all)
			}
		}
	}
	w := out.Interface().(T)
	if c, ok := any(w).(Validator); ok {
		if err := c.Validate(); err != nil {
			return zero, fmt.Errorf("%s: %w", name, err)
		}
	}
	return w, nil
}
