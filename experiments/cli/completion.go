package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/registry"
)

type completer = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// complete gives commands what the shell offers behind them.
func complete(root *cobra.Command) {
	for path, f := range map[string]completer{
		"run":          completeRun,
		"sweep":        completeRun,
		"recipe":       completeRun,
		"advise":       completeKeys,
		"schedule":     completeKeys,
		"list":         words(kindNames),
		"show":         completeRuns,
		"weights":      completeRuns,
		"sample":       completeRuns,
		"reproduce":    words(func() []string { return names("studies") }),
		"data":         words(func() []string { return names("data") }),
		"codec":        words(func() []string { return append(names("codecs"), "check") }),
		"codec check":  words(func() []string { return names("codecs") }),
		"runs list":    completeRuns,
		"runs compare": completeRuns,
		"runs diff":    completeRuns,
		"runs rm":      completeRuns,
		"runs export":  completeRuns,
	} {
		if c, _, err := root.Find(strings.Fields(path)); err == nil && c.ValidArgsFunction == nil {
			c.ValidArgsFunction = f
		}
	}
}

func words(f func() []string) completer {
	return func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f(), cobra.ShellCompDirectiveNoFileComp
	}
}

func kindNames() (out []string) {
	for _, k := range kinds() {
		out = append(out, k.name)
	}
	return out
}

func names(kind string) (out []string) {
	for _, k := range kinds() {
		if k.name == kind {
			for _, en := range k.entries() {
				out = append(out, en.Name)
			}
		}
	}
	return out
}

// completeRun offers recipes (and files), then keys, then what stands behind a
// key.
func completeRun(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return config.RecipeNames(), cobra.ShellCompDirectiveDefault
	}
	return completeKey(word)
}

// completeKeys offers keys, then what stands behind a key.
func completeKeys(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	return completeKey(word)
}

func completeKey(word string) (out []string, d cobra.ShellCompDirective) {
	d = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	key, value, ok := strings.Cut(word, "=")
	if !ok {
		for _, k := range config.Settings() {
			out = append(out, k.Name+"=")
		}
		return out, d
	}
	before := "" // what stands before the last value of the list, or the last bracket
	if i := strings.LastIndexAny(value, ",("); i >= 0 {
		before = value[:i+1]
	}
	for _, v := range valuesOf(key) {
		out = append(out, key+"="+before+v)
	}
	return out, d
}

// valuesOf are the names that a key's values begin with.
func valuesOf(key string) []string {
	for _, k := range kinds() {
		if k.name != "keys" && strings.Contains(", "+k.used+",", ", "+key+",") {
			return names(k.name)
		}
	}
	for _, k := range config.Settings() {
		switch {
		case k.Name == key && k.Type == "bool":
			return []string{"true", "false"}
		case k.Name == key:
			return k.OneOf()
		}
	}
	return nil
}

// completeRuns offers ids of runs, fields to filter by, and folders.
func completeRuns(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if f, _, ok := strings.Cut(word, "="); ok {
		var out []string
		for _, v := range valuesOf(f) {
			out = append(out, f+"="+v)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	if runs, _ := store.Find("runs"); word != "" {
		for _, r := range runs {
			if strings.HasPrefix(r.ID, word) {
				out = append(out, r.ID+"\t"+regular.Line(r.Recipe+" "+r.Name))
			}
		}
	}
	for _, f := range store.Fields() {
		if strings.HasPrefix(f.Name, word) && word != "" {
			out = append(out, f.Name+"=\t"+f.Doc)
		}
	}
	return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

// flagError words a mistake in a flag with the next step.
func flagError(cmd *cobra.Command, err error) error {
	step := "see " + cmd.CommandPath() + " --help"
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usageError{wrapped{err, step}}
	}
	var all []string
	for _, line := range strings.Fields(cmd.Flags().FlagUsages()) {
		if f, ok := strings.CutPrefix(line, "--"); ok {
			all = append(all, f)
		}
	}
	key := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	if h := config.Hint(key); h != "" {
		step = h + "; " + step
	} else if config.Default().Get(key) != "" {
		step = key + " is a key, given without dashes: " + key + "=…; " + step
	} else if n := registry.Nearest(name, all); n != "" {
		step = "did you mean --" + n + "? " + step
	}
	return usageError{wrapped{err, step}}
}

// wrapped is an error and the next step to take.
type wrapped struct {
	error
	step string
}

func (w wrapped) Error() string { return w.error.Error() + "; " + w.step }
func (w wrapped) Unwrap() error { return w.error }

// flagsAsKeys refuses arguments that are flags without their dashes, such as
// resume=true.
func flagsAsKeys(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		name := strings.ReplaceAll(strings.ToLower(key), "_", "-")
		f := cmd.Flags().Lookup(name)
		if f == nil || config.Default().Get(strings.ToLower(key)) != "" {
			continue
		}
		show := "--" + name
		if f.Value.Type() != "bool" && value != "" {
			show += "=" + value
		}
		return usageError{fmt.Errorf("%q is no key, %s is a flag: gradlab %s … %s", key, "--"+name, cmd.Name(), show)}
	}
	return nil
}
