package compress

import (
	"reflect"
	"slices"
)

// What is asked of a family as a whole follows from what it claims on blocks of
// every kind, and from what the families inside it claim there.

// Inside lists the families that f holds: those of Inner, and those in exported fields
// of its options that Inner leaves out, so that none is hidden.
func Inside(f Family) []Family {
	var all []Family
	if w, ok := f.(Wrapper); ok {
		all = slices.Clone(w.Inner())
	}
	for _, in := range optionFamilies(f) {
		if !slices.ContainsFunc(all, func(have Family) bool { return reflect.DeepEqual(have, in) }) {
			all = append(all, in)
		}
	}
	return all
}

// optionFamilies are the families in exported fields of f's options. What f embeds
// is f itself.
func optionFamilies(f Family) (out []Family) {
	v := reflect.ValueOf(f)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Anonymous {
			continue
		}
		switch at := v.Field(i); field.Type {
		case familyType:
			if in, ok := at.Interface().(Family); ok {
				out = append(out, in)
			}
		case reflect.SliceOf(familyType):
			for _, in := range at.Interface().([]Family) {
				if in != nil {
					out = append(out, in)
				}
			}
		}
	}
	return out
}

var familyType = reflect.TypeFor[Family]()

// kinds are blocks of every kind: vectors and matrices, short and long, of every
// role.
var kinds = func() (out []Block) {
	for _, role := range []string{"weight", "bias", "norm"} {
		for _, shape := range [][2]int{{1, 8}, {1, 512}, {64, 64}, {1, 1 << 14}, {1024, 1024}} {
			out = append(out, Block{Name: "kind." + role, Role: role, Rows: shape[0], Cols: shape[1], World: 2, Peer: -1})
		}
	}
	return out
}()

// Everywhere reports whether what f claims holds on blocks of every kind, and so
// does what every family inside f claims.
func Everywhere(f Family, holds func(Claims) bool) bool {
	return !Somewhere(f, func(c Claims) bool { return !holds(c) })
}

// Somewhere reports whether what f claims holds on a block of some kind, or what a
// family inside f claims.
func Somewhere(f Family, holds func(Claims) bool) bool {
	return slices.ContainsFunc(kinds, func(b Block) bool { c, _ := ClaimsOf(f, b); return holds(c) }) ||
		slices.ContainsFunc(Inside(f), func(in Family) bool { return Somewhere(in, holds) })
}

// Plain reports whether f compresses nothing, on whatever block: see Claims.Plain.
func Plain(f Family) bool { return f != nil && Everywhere(f, Claims.Plain) }

// Casts reports whether f sends every value alone, as it is, on whatever block: see
// Claims.Cast.
func Casts(f Family) bool {
	return f != nil && Everywhere(f, func(c Claims) bool { return c.Cast })
}

// WarmsUp reports whether payloads of f shrink over the first steps or epochs: see
// Claims.WarmsUp.
func WarmsUp(f Family) bool { return Somewhere(f, func(c Claims) bool { return c.WarmsUp }) }

// Remembers reports whether f, or a family inside it, keeps what it leaves out for
// later steps: see Claims.Remembers.
func Remembers(f Family) bool { return Somewhere(f, func(c Claims) bool { return c.Remembers }) }

// FeedsBack reports whether f must not encode differences to what the other end
// holds: it Remembers, and no option permits that (Claims.Unchecked).
func FeedsBack(f Family) bool {
	if _, chooses := f.(Chooser); !chooses {
		for _, b := range kinds {
			switch c, _ := ClaimsOf(f, b); {
			case c.Unchecked:
				return false
			case c.Remembers:
				return true
			}
		}
	}
	return slices.ContainsFunc(Inside(f), FeedsBack)
}
