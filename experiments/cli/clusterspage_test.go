package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// advised is a command of docs/clusters.md and what it says there.
var advised = regexp.MustCompile("(?s)```sh\ngradlab (advise [^\n#]*?) *(#[^\n]*)?\n```\n\n```\n(.*?)```\n")

// What docs/clusters.md says of advise is what advise says: the verdict, and where its step
// lies: its first two lines. With -update the page is written.
//
//	go test ./experiments/cli -tags long -run TestClustersPage -update
func TestClustersPage(t *testing.T) {
	if !patience.Long {
		t.Skip("prices clusters")
	}
	patience.Alone(t)
	const file = "../../docs/clusters.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, part, ok := strings.Cut(string(b), "<!-- advice: TestClustersPage")
	found := advised.FindAllStringSubmatch(part, -1)
	if !ok || len(found) != 2 {
		t.Fatalf("%d commands with their answers are in %s, want 2", len(found), file)
	}
	for _, m := range found {
		var args []string
		for i, quoted := range strings.Split(m[1], "'") {
			if i%2 == 1 {
				args = append(args, quoted)
			} else {
				args = append(args, strings.Fields(quoted)...)
			}
		}
		var out, errs bytes.Buffer
		if code := Main(append(args, "--out", t.TempDir()), &out, &errs); code != ExitOK {
			t.Fatalf("%s: exit %d: %s", m[1], code, errs.String())
		}
		lines := strings.SplitAfterN(out.String(), "\n", 3)
		says := lines[0] + lines[1]
		if *update {
			part = strings.Replace(part, m[3], says, 1)
		} else if m[3] != says {
			t.Errorf("%s has\n%s\ngradlab %s says\n%s", file, m[3], m[1], says)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+"<!-- advice: TestClustersPage"+part), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
