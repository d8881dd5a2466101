package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/registry"
)

//go:embed init/*.txt
var initFiles embed.FS

// initNames are names that can be a codec's, a type's and a folder's.
var initNames = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

func (e *env) initCommand() *cobra.Command {
	var checkout string
	c := &cobra.Command{
		Use:   "init codec|study NAME [key=value…]",
		Short: "Write a codec or a study of your own to begin with",
		Long: `Init writes something that works, to be changed.

  gradlab init codec mine       a Go module, folder mine: a codec, its test, and a gradlab with it
  gradlab init study mine       a recipe, mine.yaml
  gradlab init study mine 'data=csv(path=mine.csv,label=class)' 'codec=raw,qsgd'

The module takes gradlab from a checkout: the one in or below which you are, or else the
one that this program was built from; --checkout names another. Files that are there are
never written over.`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2 || args[0] != "codec" && args[0] != "study":
				return usageError{errors.New("init wants what to write and a name: gradlab init codec mine, or gradlab init study mine")}
			case !initNames.MatchString(args[1]):
				return usageError{fmt.Errorf("%q: want a name of small letters, digits and _, a letter first", args[1])}
			case args[0] == "study":
				return e.initStudy(args[1], args[2:])
			case len(args) > 2:
				return usageError{fmt.Errorf("init codec takes a name alone, not %q", args[2])}
			}
			return e.initCodec(args[1], checkout)
		},
	}
	c.Flags().StringVar(&checkout, "checkout", "", "`folder` of a checkout of gradlab, for init codec")
	return c
}

// filled is a template with its blanks filled.
func filled(file string, as any) ([]byte, error) {
	t, err := template.ParseFS(initFiles, "init/"+file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, as)
	return b.Bytes(), err
}

// codecNames is what the templates of a codec are filled with.
type codecNames struct{ Command, Name, Type string }

// initCodec writes a module with a codec, which takes gradlab from a checkout.
func (e *env) initCodec(name, checkout string) error {
	if _, err := compress.Families.Parse(name); err == nil {
		return usageError{fmt.Errorf("there is a codec %q already: gradlab help %s", name, name)}
	}
	from, err := findCheckout(checkout)
	if err != nil {
		return usageError{err}
	}
	mod, err := regular.ReadFile(filepath.Join(from, "go.mod"), 1<<20)
	if err != nil {
		return err
	}
	sum, err := regular.ReadFile(filepath.Join(from, "go.sum"), 1<<24)
	if err != nil {
		return err
	}
	_, needs, _ := strings.Cut(string(mod), "\n")
	text := fmt.Sprintf("module example.org/%s\n%s\nrequire %sv0.0.0\n\nreplace %s=> %q\n", name, needs, ours+" ", ours+" ", from)
	as := codecNames{name, name, strings.ReplaceAll(strings.ToUpper(name[:1])+name[1:], "_", "")}
	files := map[string][]byte{"go.mod": []byte(text), "go.sum": sum}
	for _, f := range []string{"main.go", "main_test.go"} {
		if files[f], err = filled(f+".txt", as); err != nil {
			return err
		}
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		return fmt.Errorf("init codec: %w", err)
	}
	for f, b := range files {
		if err := os.WriteFile(filepath.Join(name, f), b, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(e.out, "%s is a module with codec %s; it takes gradlab from %s\n  cd %s\n  go test .                        # its claims, hostile bytes, state\n  go run . codec check %s\n  go run . run quickstart codec=raw,%s device.codec=free\n", name, name, from, name, name, name)
	return nil
}

// ours is the path of gradlab's module.
const ours = "github.com/gradlab/gradlab"

// findCheckout returns the folder of a checkout of gradlab: the one that was said, or the
// one around the working directory, or the one that this program was built from.
func findCheckout(said string) (string, error) {
	is := func(dir string) bool {
		b, err := regular.ReadFile(filepath.Join(dir, "go.mod"), 1<<20)
		first, _, _ := strings.Cut(string(b), "\n")
		return err == nil && strings.TrimSpace(first) == "module "+ours
	}
	if said != "" {
		at, err := filepath.Abs(said)
		if err == nil && !is(at) {
			err = fmt.Errorf("--checkout %s: its go.mod is not that of module %s", said, ours)
		}
		return at, err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	_, source, _, _ := runtime.Caller(0)
	for _, dir := range []string{here, filepath.Dir(source)} {
		for ; filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			if is(dir) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("no checkout of gradlab is around this folder, nor where this program was built; say --checkout FOLDER")
}

// initStudy writes a recipe, with keys as they were given.
func (e *env) initStudy(name string, keys []string) error {
	b, err := filled("study.yaml.txt", struct{ Name string }{name})
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, kv := range keys {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return usageError{fmt.Errorf("%q is not key=value", kv)}
		}
		var values []string
		for _, v := range registry.SplitTop(value) {
			values = append(values, fmt.Sprintf("%q", v))
		}
		line := key + ": " + strings.Join(values, ", ")
		if len(values) != 1 {
			line = key + ": [" + strings.Join(values, ", ") + "]"
		}
		lines = replaced(lines, key, line)
	}
	file := name + ".yaml"
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("init study: %w", err)
	}
	_, err = out.WriteString(strings.Join(lines, "\n") + "\n")
	if err = errors.Join(err, out.Close()); err == nil {
		err = checkStudy("./" + file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	fmt.Fprintf(e.out, "%s is a recipe\n  gradlab run ./%s\n  gradlab sweep ./%s --repeats 3   # with seeds, for intervals\n  gradlab report runs/%s\n", file, file, file, name)
	return nil
}

// replaced puts a line in place of the one with the same key, or behind all.
func replaced(lines []string, key, line string) []string {
	for i, l := range lines {
		if k, _, _ := strings.Cut(l, ":"); k == key {
			lines[i] = line
			return lines
		}
	}
	return append(lines, line)
}

// checkStudy reports what is wrong with a recipe that was written.
func checkStudy(path string) error {
	r, err := config.LoadRecipe(path)
	if err == nil {
		_, err = r.Runs(nil, false)
	}
	return err
}
