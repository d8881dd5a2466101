package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// within runs the command line with a file of settings, "" for none, and variables.
func within(t *testing.T, file string, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv(settingsVariable, "")
	if file != "" {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(settingsVariable, path)
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	var o, e bytes.Buffer
	code = Main(args, &o, &e)
	return code, o.String(), e.String()
}

// The command line is above variables, these above the file, and that above defaults.
func TestSettingsOfFlags(t *testing.T) {
	patience.Alone(t)
	dir := t.TempDir()
	t.Chdir(dir)
	file := "run: {out: fromfile, quiet: true, tag: \"a,b\"}\nruns: {out: fromfile}\n"
	if err := os.WriteFile("r.yaml", []byte("net: sim\nworkers: 2\nsteps: 4\nepochs: 0\nbatch: 8\ndata: digits\nmodel: logistic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := within(t, file, nil, "run", "./r.yaml"); code != 0 {
		t.Fatal(code, errs)
	}
	records, err := filepath.Glob("fromfile/r/*/config.yaml")
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	code, out, errs := within(t, file, nil, "runs", "list", "--columns", "id,tags,batch")
	if code != 0 || !strings.Contains(out, "a, b") && !strings.Contains(out, "a,b") {
		t.Error(code, out, errs)
	}
	if code, _, _ := within(t, "run: {out: fromfile}", []string{"GRADLAB_RUN_OUT=variable"}, "run", "./r.yaml", "--out", "typed", "--quiet", "data=digits", "model=logistic", "steps=2", "epochs=0"); code != 0 {
		t.Error(code)
	}
	if _, err := os.Stat("typed"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("variable"); err == nil {
		t.Error("a variable went over what was typed")
	}
}

// What is wrong with settings is told with its place.
func TestSettingsRefused(t *testing.T) {
	patience.Alone(t)
	for _, c := range []struct {
		file    string
		environ []string
		args    string
		want    string
	}{
		{"run: {oout: x}\n", nil, "run quickstart", `mine.yaml:1: run.oout is no flag: did you mean "run.out"?`},
		{"keys:\n  net: sim\n", nil, "list keys", `mine.yaml:2: keys of runs stand on the command line or in a recipe`},
		{"keys: 3\n", nil, "list keys", `mine.yaml:1: keys of runs`},
		{"- a\n", nil, "list keys", `mine.yaml:1: want flags and values`},
		{"run: {out: [a, b]}\n", nil, "run quickstart", `mine.yaml:1: --out: want one value`},
		{"run:\n  draws: many\n", nil, "run quickstart", `mine.yaml:2: --draws: `},
		{"", []string{"GRADLAB_RUN_DRAWS=many"}, "run quickstart", `GRADLAB_RUN_DRAWS: --draws: `},
		{"", []string{"GRADLAB_RUN_OUTT=x"}, "run quickstart", `GRADLAB_RUN_OUTT: gradlab run has no such flag: did you mean GRADLAB_RUN_OUT?`},
		{"", []string{"GRADLAB_CONFIG=/nowhere/x.yaml"}, "list keys", `GRADLAB_CONFIG: `},
	} {
		t.Run(c.want, func(t *testing.T) {
			code, _, errs := within(t, c.file, c.environ, strings.Fields(c.args)...)
			if code != ExitConfig || !strings.Contains(errs, c.want) {
				t.Errorf("exit %d, %q", code, errs)
			}
		})
	}
}

// No two flags have one variable, and none has that of another part's.
func TestVariablesAreApart(t *testing.T) {
	of := map[string]string{settingsVariable: "the file", "GRADLAB_TOKEN": "the token", "GRADLAB_RANK": "a rank", "GRADLAB_LIBRARY": "the codecs' library", "GRADLAB_VIRTUAL": "the virtual group", "GRADLAB_STATED": "the virtual group"}
	add := func(path string) {
		if was, twice := of[variable(path)]; twice {
			t.Errorf("%s and %s have the variable %s", path, was, variable(path))
		}
		of[variable(path)] = path
	}
	paths := flagPaths((&env{v: newViper(), out: io.Discard, err: io.Discard}).root())
	for _, path := range paths {
		add(path)
	}
	if len(paths) < 100 {
		t.Errorf("only %d flags", len(paths))
	}
}
