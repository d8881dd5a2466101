package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ReadSettings reads a person's own file of settings:
//
//	data-dir: /data          # flags of every command
//	run: {out: /scratch}     # flags of one command
//	keys: {net: local}       # keys of runs, where a recipe says nothing of them
//
// What stands under keys comes back as a recipe to give to LayOver, nil if there is
// nothing; of all else the lines, by path: run.out. Errors say file and line.
func ReadSettings(file string, b []byte) (keys *Recipe, flags map[string]int, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	flags = map[string]int{}
	if len(doc.Content) == 0 {
		return nil, flags, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("%s:%d: want flags and values, and keys: with the keys of runs", file, root.Line)
	}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if strings.ToLower(k.Value) == "keys" {
			as, err := assignments(file, v)
			errs = append(errs, err...)
			for _, a := range as {
				if len(a.values) > 1 {
					errs = append(errs, fmt.Errorf("%s: key %q: want one value, as every run would be made once for each", a.where, a.key))
				}
			}
			keys = &Recipe{Name: file, keys: as}
			continue
		}
		walkKeys(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{k, v}}, "", func(path string, line int) {
			if was, twice := flags[path]; twice {
				errs = append(errs, fmt.Errorf("%s:%d: %s is given twice, first in line %d", file, line, path, was))
			}
			flags[path] = line
		})
	}
	return keys, flags, errors.Join(errs...)
}

// LayOver lays the recipe over keys that hold where it says nothing; see ReadSettings.
func (r *Recipe) LayOver(keys *Recipe) { r.layOn(keys) }

// Said lists the recipe's common keys as overrides: net=local.
func (r *Recipe) Said() (out []string) {
	for _, a := range r.keys {
		out = append(out, a.key+"="+strings.Join(a.values, ","))
	}
	return out
}

// CheckOverride says what is wrong with an override by itself, such as
// "codec=raw,bf16", wherever it was given.
func CheckOverride(where, override string) error {
	key, text, _ := strings.Cut(override, "=")
	values, err := Values(text)
	if err != nil {
		return fmt.Errorf("%s: key %q: %w", where, key, err)
	}
	return assignment{strings.ToLower(key), values, where}.check()
}
