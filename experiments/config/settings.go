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
//
// It returns the lines of the flags, by path: run.out. Errors say file and line. Keys of
// runs are refused: a result must not depend on a file that is easily forgotten.
func ReadSettings(file string, b []byte) (flags map[string]int, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	flags = map[string]int{}
	if len(doc.Content) == 0 {
		return flags, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want flags and values", file, root.Line)
	}
	var errs []error
	walkKeys(root, "", func(path string, line int, _ *yaml.Node) {
		if was, twice := flags[path]; twice {
			errs = append(errs, fmt.Errorf("%s:%d: %s is given twice, first in line %d", file, line, path, was))
		}
		if top, _, _ := strings.Cut(path, "."); top == "keys" {
			errs = append(errs, fmt.Errorf("%s:%d: keys of runs stand on the command line or in a recipe, which may inherit another (gradlab help recipes), and not among settings", file, line))
		}
		flags[path] = line
	})
	return flags, errors.Join(errs...)
}
