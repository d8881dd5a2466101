package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --without takes a mechanism out and says so, --mutants takes out each; what does not
// exist, or is not of one study, is refused.
func TestMechanismsAreTakenOut(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"grace-bytes", "--without", "an entry at least"}, ExitFailed, "WITHOUT an entry at least"},
		{[]string{"grace-bytes", "--mutants"}, ExitOK, "2 mechanisms taken out, 0 not noticed"},
		{[]string{"grace-bytes", "--mutants", "--json"}, ExitOK, `"mechanism": "a byte a level"`},
		{[]string{"grace-bytes", "--without", "an entry at last"}, ExitConfig, `did you mean "an entry at least"`},
		{[]string{"grace-bytes", "ps-vs-ring", "--without", "latency"}, ExitConfig, "out of one study"},
		{[]string{"grace-bytes", "--mutants", "--without", "a byte a level"}, ExitConfig, "out of one study"},
	} {
		var out, err bytes.Buffer
		code := Main(append([]string{"reproduce", "--quick", "--out", dir}, c.args...), &out, &err)
		if all := out.String() + err.String(); code != c.code || !strings.Contains(all, c.want) {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", c.args, code, c.code, c.want, all)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "grace-bytes-without-an-entry-at-least", "report.md")); err != nil {
		t.Error(err)
	}
	var out, err bytes.Buffer
	if code := Main([]string{"help", "dc-asgd"}, &out, &err); code != ExitOK || !strings.Contains(out.String(), "--without 'compensation'") {
		t.Errorf("exit %d: %s%s", code, &out, &err)
	}
}
