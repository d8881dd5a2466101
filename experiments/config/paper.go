package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Paper is what a recipe is made after: the publication, where each setting stands
// in it, and what came of it.
type Paper struct {
	Cite string `yaml:"cite"` // authors, year, title, where it is
	// Sources says of each setting where it is from, by key: a section or table,
	// or, in a form, how it follows from the paper's. What begins with "unverified"
	// was not read at the source.
	Sources map[string]string `yaml:"sources"`
	Expect  []Expected        `yaml:"expect"`  // what the paper reached
	Row     []Row             `yaml:"row"`     // how long it took
	Departs []string          `yaml:"departs"` // what is not as in the paper
}

// Expected is a published result.
type Expected struct {
	Run        string  `yaml:"run"`    // of the variant so named; "": of all
	Of         string  `yaml:"of"`     // what was measured, with its unit: "top-1 error, %"
	Value      float64 `yaml:"value"`  // its mean
	Spread     float64 `yaml:"spread"` // ± so much, as Source says; 0: not published
	Source     string  `yaml:"source"` // where it stands, and what the spread is
	Unverified bool    `yaml:"unverified"`
}

// String is the result in words.
func (e Expected) String() string {
	text := fmt.Sprintf("%s: %v", e.Of, e.Value)
	if e.Spread > 0 {
		text += fmt.Sprintf(" ± %v", e.Spread)
	}
	text += " (" + e.Source
	if e.Unverified {
		text += "; not read at the source"
	}
	return text + ")"
}

// Row is a row of published times of one training.
type Row struct {
	Run        string  `yaml:"run"`        // of the variant so named; "": of all
	Devices    string  `yaml:"devices"`    // what it was made on: "256 P100"
	Minutes    float64 `yaml:"minutes"`    // to train; 0: not published
	Efficiency float64 `yaml:"efficiency"` // per cent of as many times Unit alone; 0: not published
	Unit       int     `yaml:"unit"`       // devices that efficiency is relative to; 0: those of one host
	Source     string  `yaml:"source"`
	Unverified bool    `yaml:"unverified"`
	// Fitted says what of the cluster's description is from this very row, so that
	// its agreement proves nothing; "": nothing is.
	Fitted string `yaml:"fitted"`
}

// Expects are the published results that hold for a variant.
func (p *Paper) Expects(run string) (out []Expected) {
	for _, e := range p.of().Expect {
		if e.Run == "" || e.Run == run {
			out = append(out, e)
		}
	}
	return out
}

// Published is the row of published times that holds for a variant; nil: none.
func (p *Paper) Published(run string) *Row {
	for _, row := range p.of().Row {
		if row.Run == "" || row.Run == run {
			return &row
		}
	}
	return nil
}

// Says is what the recipe's common keys say of a key; nil: nothing, or its variants do.
func (r *Recipe) Says(key string) []string {
	for _, a := range r.keys {
		if a.key == key {
			return slices.Clone(a.values)
		}
	}
	return nil
}

// of is the paper, or one that says nothing.
func (p *Paper) of() *Paper {
	if p == nil {
		return &Paper{}
	}
	return p
}

// over lays what is said here over what a base says: sources one by one, everything
// else as a whole.
func (p *Paper) over(base *Paper) *Paper {
	if p == nil || base == nil {
		if p == nil {
			return base
		}
		return p
	}
	out := *p
	out.Sources = map[string]string{}
	for _, from := range []*Paper{base, p} {
		for k, v := range from.Sources {
			out.Sources[k] = v
		}
	}
	if p.Cite == "" {
		out.Cite = base.Cite
	}
	if p.Expect == nil {
		out.Expect = base.Expect
	}
	if p.Row == nil {
		out.Row = base.Row
	}
	if p.Departs == nil {
		out.Departs = base.Departs
	}
	return &out
}

// readPaper reads what a recipe says of its paper.
func readPaper(file string, n *yaml.Node) (*Paper, []error) {
	if n.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%s:%d: key \"paper\": want cite, sources, expect, row and departs", file, n.Line)}
	}
	p := &Paper{}
	if errs := knownFields(file, "paper", n, reflect.TypeFor[Paper]()); len(errs) > 0 {
		return nil, errs
	}
	if err := n.Decode(p); err != nil {
		return nil, []error{fmt.Errorf("%s: key \"paper\": %w", file, err)}
	}
	return p, nil
}

// knownFields finds words of a mapping that a struct does not have.
func knownFields(file, where string, n *yaml.Node, t reflect.Type) (errs []error) {
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			errs = append(errs, knownFields(file, where, item, t.Elem())...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		var words []string
		for f := range t.Fields() {
			words = append(words, f.Tag.Get("yaml"))
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			j := slices.Index(words, k.Value)
			if j < 0 {
				errs = append(errs, fmt.Errorf("%s:%d: key %q has no %q; it has %s", file, k.Line, where, k.Value, strings.Join(words, ", ")))
				continue
			}
			errs = append(errs, knownFields(file, where+"."+k.Value, n.Content[i+1], t.Field(j).Type)...)
		}
	}
	return errs
}
