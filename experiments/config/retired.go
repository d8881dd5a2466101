package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// retired is a key that is an option of a mode now. Configurations that were kept
// have it; recipes and command lines are told its new spelling.
type retired struct{ key, mode, usual string }

var retiredKeys = []retired{
	{"n_fetch", "downpour", "1"},
	{"n_push", "downpour", "1"},
	{"warm_start", "downpour", "0"},
}

func findRetired(name string) (retired, bool) {
	i := slices.IndexFunc(retiredKeys, func(r retired) bool { return r.key == strings.ToLower(name) })
	if i < 0 {
		return retired{}, false
	}
	return retiredKeys[i], true
}

// refusal says how to write it.
func (r retired) refusal(value string) error {
	return fmt.Errorf("key %q is an option of mode %s: write mode=%s(%s=%s)", r.key, r.mode, r.mode, r.key, strings.TrimSpace(value))
}

// into is the text of a mode with the option, if it is that mode.
func (r retired) into(mode, value string) string {
	name, options, has := strings.Cut(strings.TrimSpace(mode), "(")
	if value == r.usual || name != r.mode {
		return mode
	}
	option := r.key + "=" + value
	if options = strings.TrimSuffix(options, ")"); has && options != "" {
		option = options + "," + option
	}
	return name + "(" + option + ")"
}

// Retire moves the retired keys of a configuration that was kept into its mode. In
// other modes, and at their usual values, they said nothing.
func Retire(keys map[string]any) {
	mode, ok := keys["mode"].(string)
	if !ok {
		mode = Default().Mode
	}
	was := mode
	for _, r := range retiredKeys {
		if v, ok := keys[r.key]; ok {
			mode = r.into(mode, fmt.Sprint(v))
		}
		delete(keys, r.key)
	}
	if mode != was {
		keys["mode"] = Canonical("mode", mode)
	}
}

// HoldsRetired says whether there are keys among these that are options of a mode now.
func HoldsRetired(keys map[string]any) bool {
	return slices.ContainsFunc(retiredKeys, func(r retired) bool { _, ok := keys[r.key]; return ok })
}

// retireKept does the same to the text of a resolved configuration, which has every
// key there was. A recipe, which has the keys that somebody wrote, stays as it is.
func retireKept(root *yaml.Node) {
	at := func(name string) int {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == name {
				return i
			}
		}
		return -1
	}
	mode := at("mode")
	if mode < 0 || slices.ContainsFunc(retiredKeys, func(r retired) bool { return at(r.key) < 0 }) {
		return
	}
	text := root.Content[mode+1].Value
	for _, r := range retiredKeys {
		i := at(r.key)
		text = r.into(text, root.Content[i+1].Value)
		root.Content = slices.Delete(root.Content, i, i+2)
	}
	root.Content[at("mode")+1].Value = text
}
