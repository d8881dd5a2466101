package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/program"
)

// The ending of an export's name says what is in it: what it cannot be is refused, and no
// file is left.
func TestExportGoesByItsEnding(t *testing.T) {
	t.Parallel()
	dir := foreignRun(t, experiments.About{}, "")
	for _, c := range []struct{ name, format, want string }{ // want: how the file begins, or of the error
		{"x.csv", "", "id,"}, {"x.CSV", "", "id,"}, {"x.parquet", "", "PAR1"}, {"x.Parquet", "parquet", "PAR1"}, {"x", "", "id,"}, {"y", "parquet", "PAR1"},
		{"x.json", "", "not .json"}, {"x.json", "csv", "not .json"}, {"x.csv.gz", "", "not .gz"}, {"x.xlsx", "", "not .xlsx"},
		{"z.csv", "parquet", "leave one of them out"}, {"z.parquet", "csv", "leave one of them out"}, {"w.csv", "xml", "leave one of them out"}, {"w", "xml", "want csv or parquet"},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		args := []string{"runs", "export", dir, "-o", file}
		if c.format != "" {
			args = append(args, "--format", c.format)
		}
		p := program.Start(t, nil, args...)
		<-p.Done
		b, err := os.ReadFile(file)
		if p.Cmd.ProcessState.ExitCode() == 0 {
			if err != nil || !strings.HasPrefix(string(b), c.want) {
				t.Errorf("%s as %q: %v, %.20q; want %q", c.name, c.format, err, b, c.want)
			}
		} else if p.Expect(2); err == nil || !strings.Contains(p.Err.String(), c.want) {
			t.Errorf("%s as %q: %s; want %q", c.name, c.format, p.Says(), c.want)
		}
	}
}
