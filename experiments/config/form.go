package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The forms that a recipe may have beside that in which it is written. Each is laid
// over the recipe as that is over its base.
//
//	forms:
//	  timing: {cluster: big-basin, workers: 256}   # without weights, on the paper's cluster: run --timing
//	  proxy: {data: cifar10, epochs: 9}            # real gradients of a small task: run --proxy
const (
	FormTiming = "timing"
	FormProxy  = "proxy"
)

var formNames = []string{FormProxy, FormTiming}

// readForms reads the forms of a recipe.
func (r *Recipe) readForms(file string, v *yaml.Node) (errs []error) {
	if v.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: key \"forms\": want %s, each with keys of its own", file, v.Line, strings.Join(formNames, " or "))}
	}
	r.forms = map[string]*Recipe{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		k, n := v.Content[i], v.Content[i+1]
		switch {
		case !slices.Contains(formNames, k.Value):
			errs = append(errs, fmt.Errorf("%s:%d: key \"forms\": want %s, not %q", file, k.Line, strings.Join(formNames, " or "), k.Value))
		case r.forms[k.Value] != nil:
			errs = append(errs, fmt.Errorf("%s:%d: form %q is given twice", file, k.Line, k.Value))
		case n.Kind != yaml.MappingNode:
			errs = append(errs, fmt.Errorf("%s:%d: form %q: want keys and values", file, n.Line, k.Value))
		default:
			f, more := readRecipe(k.Value, file, n, true, r.texts)
			r.forms[k.Value] = f
			errs = append(errs, more...)
		}
	}
	return errs
}

// formsOver lays the forms of a recipe over those of its base.
func (r *Recipe) formsOver(base *Recipe) {
	own := r.forms
	r.forms = maps.Clone(base.forms)
	for name, f := range own {
		if under := base.forms[name]; under != nil {
			f = f.clone()
			f.layOn(under)
		}
		if r.forms == nil {
			r.forms = map[string]*Recipe{}
		}
		r.forms[name] = f
	}
}

// clone is a copy that can be laid over another recipe.
func (r *Recipe) clone() *Recipe {
	c := *r
	return &c
}

// Forms lists the forms that a recipe has beside the one in which it is written.
func (r *Recipe) Forms() []string { return slices.Sorted(maps.Keys(r.forms)) }

// Form is a form of the recipe, as a recipe of its own: goyal2017-proxy.
func (r *Recipe) Form(name string) (*Recipe, error) {
	f := r.forms[name]
	if f == nil {
		var have []string
		for _, other := range RecipeNames() {
			if o, err := LoadRecipe(other); err == nil && o.forms[name] != nil {
				have = append(have, other)
			}
		}
		return nil, fmt.Errorf("recipe %s has no form %q; these have one: %s (gradlab help recipes says how to write it)", r.Name, name, strings.Join(have, ", "))
	}
	out := f.clone()
	out.layOn(r)
	if out.Paper != nil { // what the paper reached, it did not reach in this form
		p := *out.Paper
		p.Expect = f.Paper.of().Expect
		out.Paper = &p
	}
	out.Name, out.forms = r.Name+"-"+name, nil
	return out, nil
}
