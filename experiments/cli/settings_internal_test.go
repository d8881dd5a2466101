package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
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

// The command line is above variables, these above the recipe, it above the file, and
// that above defaults.
func TestSettingsPrecedence(t *testing.T) {
	patience.Alone(t)
	recipe := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(recipe, []byte("model: logistic\ndata: digits\nworkers: 2\nnet: sim\nsteps: 5\nepochs: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	resolved := func(t *testing.T, file string, environ []string, keys ...string) string {
		t.Helper()
		code, out, errs := within(t, file, environ, append([]string{"recipe", recipe, "--resolved"}, keys...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	const file = "keys: {workers: 3, batch: 7, network: {bandwidth: 3Gbps}}\n"
	for _, c := range []struct {
		name, file string
		environ    []string
		typed      []string
		want, not  []string
	}{
		{"nothing", "", nil, nil, []string{"workers: 2"}, []string{"batch: 7"}},
		{"file", file, nil, nil, []string{"workers: 2", "batch: 7", "bandwidth: 3Gbps"}, nil},
		{"variables", file, []string{"GRADLAB_KEYS_WORKERS=6", "GRADLAB_KEYS_NETWORK_BANDWIDTH=2Gbps"}, nil, []string{"workers: 6", "batch: 7", "bandwidth: 2Gbps"}, nil},
		{"command line", file, []string{"GRADLAB_KEYS_WORKERS=6"}, []string{"workers=5", "batch=8"}, []string{"workers: 5", "batch: 8"}, nil},
		{"an empty variable", "", []string{"GRADLAB_KEYS_WORKERS="}, nil, []string{"workers: 2"}, nil},
		{"an axis", "", []string{"GRADLAB_KEYS_WORKERS=5,6"}, nil, []string{"workers: 5", "workers: 6"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := resolved(t, c.file, c.environ, c.typed...)
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in\n%s", w, got)
				}
			}
			for _, w := range c.not {
				if strings.Contains(got, w) {
					t.Errorf("%q in\n%s", w, got)
				}
			}
		})
	}
}

// Flags likewise; a run is made where the file says, and made again from its record
// without anything of the settings.
func TestSettingsOfFlags(t *testing.T) {
	patience.Alone(t)
	dir := t.TempDir()
	t.Chdir(dir)
	file := "run: {out: fromfile, quiet: true, tag: \"a,b\"}\nruns: {out: fromfile}\nkeys: {steps: 4, epochs: 0, batch: 8, data: digits, model: logistic}\n"
	if err := os.WriteFile("r.yaml", []byte("net: sim\nworkers: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := within(t, file, nil, "run", "./r.yaml")
	if code != 0 || !strings.Contains(errs, "where the recipe has none: steps=4 epochs=0 batch=8 data=digits model=logistic") {
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
	code, _, errs = within(t, "keys: {batch: 16, workers: 4}", []string{"GRADLAB_RUN_OUT=again", "GRADLAB_KEYS_SEED=7"}, "run", records[0])
	if code != 0 || strings.Contains(errs, "keys from") {
		t.Fatal(code, errs)
	}
	first, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob("again/config/*/config.yaml")
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	if second, err := os.ReadFile(made[0]); err != nil || !bytes.Equal(first, second) {
		t.Errorf("made again:\n%s\nwas\n%s%v", second, first, err)
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
		{"keys:\n  nett: sim\n", nil, "list keys", `mine.yaml:2: `},
		{"keys:\n  net: moon\n", nil, "list keys", `mine.yaml:2: `},
		{"keys:\n  workers: [1, 2]\n", nil, "list keys", `mine.yaml:2: key "workers": want one value`},
		{"keys: 3\n", nil, "list keys", `mine.yaml:1: want keys and values`},
		{"- a\n", nil, "list keys", `mine.yaml:1: want flags and values`},
		{"run: {out: [a, b]}\n", nil, "run quickstart", `mine.yaml:1: --out: want one value`},
		{"run:\n  draws: many\n", nil, "run quickstart", `mine.yaml:2: --draws: `},
		{"", []string{"GRADLAB_RUN_DRAWS=many"}, "run quickstart", `GRADLAB_RUN_DRAWS: --draws: `},
		{"", []string{"GRADLAB_RUN_OUTT=x"}, "run quickstart", `GRADLAB_RUN_OUTT: gradlab run has no such flag: did you mean GRADLAB_RUN_OUT?`},
		{"", []string{"GRADLAB_KEYS_WOKERS=2"}, "run quickstart", `GRADLAB_KEYS_WOKERS: there is no such key: did you mean GRADLAB_KEYS_WORKERS?`},
		{"", []string{"GRADLAB_KEYS_WORKERS=none"}, "sweep quickstart", `GRADLAB_KEYS_WORKERS: `},
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

// No two flags or keys have one variable, and none has that of another part's.
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
	for _, k := range config.Keys() {
		add("keys." + k.Name)
	}
	for path, old := range older {
		if was, twice := of[old]; twice {
			t.Errorf("%s of %s is that of %s", old, path, was)
		}
	}
	if len(paths) < 100 {
		t.Errorf("only %d flags", len(paths))
	}
}
