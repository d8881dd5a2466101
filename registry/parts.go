package registry

import "reflect"

// Parts is v and every spec inside it, each before those inside it, in the order of
// their options.
func (t *Table[T]) Parts(v T) []T {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return nil
	}
	out := []T{v}
	if _, ok := t.byType[rv.Type()]; !ok {
		return out
	}
	for _, f := range fields(rv.Type()) {
		fv := rv.FieldByIndex(f.index)
		switch {
		case t.nested(f.typ) && !fv.IsNil():
			out = append(out, t.Parts(fv.Interface().(T))...)
		case f.typ.Kind() == reflect.Slice && t.nested(f.typ.Elem()):
			for i := range fv.Len() {
				if in := fv.Index(i); !in.IsNil() {
					out = append(out, t.Parts(in.Interface().(T))...)
				}
			}
		}
	}
	return out
}
