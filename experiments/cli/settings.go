package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/registry"
)

// Settings are flags that a person gives once and not with every command: in a file of their
// own, and in variables of the environment. The command line is above variables, these above
// the file, and that above defaults. gradlab help settings says it to users.

// settingsVariable names the file; set to nothing, there is none.
const settingsVariable = "GRADLAB_CONFIG"

// variablePrefix is how variables of flags begin.
const variablePrefix = "GRADLAB"

// dotted is how a path of the file becomes a variable: run.out is GRADLAB_RUN_OUT.
var dotted = strings.NewReplacer(".", "_", "-", "_")

// variable is the variable of a flag, by its path.
func variable(path string) string {
	return variablePrefix + "_" + strings.ToUpper(dotted.Replace(path))
}

// settings are the file and the environment.
type settings struct {
	file  string         // "": there is none
	lines map[string]int // of flags in the file, by path
}

// newViper reads flags from the environment, and from a file that is given to it.
func newViper() *viper.Viper {
	v := viper.New()
	v.SetConfigType("yaml")
	v.SetEnvPrefix(variablePrefix)
	v.SetEnvKeyReplacer(dotted)
	v.AutomaticEnv()
	return v
}

// readSettings reads the file, if there is one.
func readSettings(v *viper.Viper) (s settings, err error) {
	file, said := os.LookupEnv(settingsVariable)
	if !said {
		dir, err := os.UserConfigDir()
		if err != nil {
			return s, nil // no home
		}
		file = filepath.Join(dir, "gradlab", "config.yaml")
	}
	if file == "" {
		return s, nil
	}
	b, err := regular.ReadText(file, regular.Text)
	if errors.Is(err, fs.ErrNotExist) && !said {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", settingsVariable, err)
	}
	s.file = file
	if s.lines, err = config.ReadSettings(file, b); err != nil {
		return s, err
	}
	return s, v.ReadConfig(bytes.NewReader(b))
}

// settle gives a command's flags what the file and the environment say of those that were
// not typed.
func (e *env) settle(cmd *cobra.Command) error {
	if cmd.Hidden {
		return nil
	}
	var err error
	if e.settings, err = readSettings(e.v); err != nil {
		return usageError{err}
	}
	var errs []error
	for path, line := range e.settings.lines {
		if paths := flagPaths(cmd.Root()); !slices.Contains(paths, path) {
			errs = append(errs, fmt.Errorf("%s:%d: %s is no flag: %s", e.settings.file, line, path, nearestOr(path, paths, "gradlab help settings says how flags are named")))
		}
	}
	known := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		path := flagPath(cmd, f)
		known[variable(path)] = true
		if f.Changed || f.Name == "help" || f.Name == "version" || !e.v.IsSet(path) {
			return
		}
		if err := e.setFlag(cmd, f, path); err != nil {
			errs = append(errs, fmt.Errorf("%s: --%s: %w", e.saidBy(path), f.Name, err))
		}
	})
	if own := variable(commandPath(cmd) + "."); cmd.HasParent() {
		for _, name := range variables(own) {
			if !known[name] && !inner(cmd, name) {
				errs = append(errs, fmt.Errorf("%s: gradlab %s has no such flag: %s", name, strings.ReplaceAll(commandPath(cmd), ".", " "), nearestVariable(name, known, "--help lists its flags")))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// setFlag gives a flag the value that viper has for it: lists of the file item by item.
func (e *env) setFlag(cmd *cobra.Command, f *pflag.Flag, path string) error {
	if list, ok := e.v.Get(path).([]any); ok {
		into, takes := f.Value.(pflag.SliceValue)
		if !takes {
			return errors.New("want one value, not a list")
		}
		var items []string
		for _, x := range list {
			items = append(items, fmt.Sprint(x))
		}
		f.Changed = true
		return into.Replace(items)
	}
	return cmd.Flags().Set(f.Name, e.v.GetString(path))
}

// saidBy is where a flag's value stands: a variable, or a line of the file.
func (e *env) saidBy(path string) string {
	if _, ok := os.LookupEnv(variable(path)); ok {
		return variable(path)
	}
	return fmt.Sprintf("%s:%d", e.settings.file, e.settings.lines[path])
}

// commandPath is a command in the file: runs.list.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return strings.ReplaceAll(path, " ", ".")
}

// flagPath is a flag in the file, at the command that has it: data-dir of all, runs.out
// of runs and what is below it, run.resume of one.
func flagPath(cmd *cobra.Command, f *pflag.Flag) string {
	at := cmd
	for c := cmd; c != nil; c = c.Parent() {
		if c.PersistentFlags().Lookup(f.Name) == f {
			at = c
		}
	}
	if !at.HasParent() {
		return f.Name
	}
	return commandPath(at) + "." + f.Name
}

// flagPaths are the flags of all commands that users call.
func flagPaths(root *cobra.Command) (out []string) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if path := flagPath(c, f); f.Name != "help" && f.Name != "version" && !slices.Contains(out, path) {
				out = append(out, path)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return out
}

// inner says whether a variable belongs to a command below this one, or to a flag of all.
func inner(cmd *cobra.Command, name string) bool {
	for _, sub := range cmd.Commands() {
		if strings.HasPrefix(name, variable(commandPath(sub)+".")) {
			return true
		}
	}
	return false
}

// variables are the names in the environment that begin so, in order.
func variables(prefix string) (out []string) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// nearestVariable is nearestOr for variables.
func nearestVariable[V any](name string, from map[string]V, step string) string {
	var low []string
	for have := range from {
		low = append(low, strings.ToLower(have))
	}
	slices.Sort(low)
	if n := registry.Nearest(name, low); n != "" {
		return fmt.Sprintf("did you mean %s? %s", strings.ToUpper(n), step)
	}
	return step
}
