package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// --without takes a mechanism out and says so, --mutants takes out each; what does not
// exist, or is not of one study, is refused.
func TestMechanismsAreTakenOut(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	dir := t.TempDir()
	type asked struct {
		args []string
		code int
		want string
	}
	cases := []asked{
		{[]string{"codec-error", "--without", "random choice"}, ExitFailed, "WITHOUT random choice"},
		{[]string{"codec-error", "--without", "random choices"}, ExitConfig, `did you mean "random choice"`},
		{[]string{"codec-error", "ps-vs-ring", "--without", "latency"}, ExitConfig, "out of one study"},
		{[]string{"codec-error", "--mutants", "--without", "rotation"}, ExitConfig, "out of one study"},
	}
	if patience.Long {
		cases = append(cases, asked{[]string{"codec-error", "--mutants"}, ExitOK, "3 mechanisms taken out, 0 not noticed"},
			asked{[]string{"codec-error", "--mutants", "--json"}, ExitOK, `"mechanism": "rotation"`})
	}
	for _, c := range cases {
		var out, err bytes.Buffer
		code := Main(append([]string{"reproduce", "--quick", "--out", dir}, c.args...), &out, &err)
		if all := out.String() + err.String(); code != c.code || !strings.Contains(all, c.want) {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", c.args, code, c.code, c.want, all)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "codec-error-without-random-choice", "report.md")); err != nil {
		t.Error(err)
	}
	var out, err bytes.Buffer
	if code := Main([]string{"help", "dc-asgd"}, &out, &err); code != ExitOK || !strings.Contains(out.String(), "--without 'compensation'") {
		t.Errorf("exit %d: %s%s", code, &out, &err)
	}
	out.Reset()
	if code := Main([]string{"help", "tf-ps"}, &out, &err); code != ExitOK || !strings.Contains(out.String(), "Options, with their defaults:\n  fit=false") {
		t.Errorf("help on a study with an option, exit %d: %s %s", code, &out, &err)
	}
}
