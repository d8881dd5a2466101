package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

func TestTopologyGraphAndTimeline(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	svg, plan := filepath.Join(t.TempDir(), "t.svg"), filepath.Join(t.TempDir(), "plan.csv")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"topology", "double_tree", "6", "1MB", "--svg", svg}, ExitOK, "→ double_tree"},
		{[]string{"topology", "rings", "8", "64kB", "network.per_host=4", "--json"}, ExitOK, `"ranks_a_node": 4`},
		{[]string{"topology", "rings"}, ExitConfig, "not 1 argument"},
		{[]string{"topology", "rinks", "8", "64kB"}, ExitConfig, "ring"},
		{[]string{"topology", "ring", "8", "many"}, ExitConfig, "64MB"},
		{[]string{"topology", "ring", "8", "1MB", "network.latency=5"}, ExitConfig, "network.latency"},
		{[]string{"topology", "ring", "8", "1MB", "batch=5"}, ExitConfig, "network.latency"},
		{[]string{"topology", "ring", "8", "1MB", "topology=tree"}, ExitConfig, "is the first argument"},
		{[]string{"topology", "one_peer", "8", "--json"}, ExitConfig, "a gossip graph has no flags"},
		{[]string{"topology", "one_peer", "8"}, ExitOK, "   1 │"},
		{[]string{"topology", "ring", "1000"}, ExitOK, "1.32e-05"},
		{[]string{"timeline", "1f1b", "4", "8"}, ExitOK, "...B0----F3-B1----"},
		{[]string{"timeline", "zbv", "2", "4", "--csv", plan}, ExitOK, "│ zbv "},
		{[]string{"timeline", plan, "--json"}, ExitOK, `"devices":[[["0F0"]`},
		{[]string{"timeline", "1f1b", "4"}, ExitConfig, "a number of stages"},
		{[]string{"timeline", "1f2b", "4", "8"}, ExitConfig, "1f1b"},
		{[]string{"timeline", "1f1b", "4", "x"}, ExitConfig, "no number"},
		{[]string{"timeline", "1f1b", "4", "0"}, ExitConfig, "at least 1"},
		{[]string{"timeline", "zbv", "4", "3"}, ExitConfig, "from 7 micro-batches on"},
		{[]string{"timeline", "1f1b", "4", "8", "--forward", "1,2"}, ExitConfig, "2 times of forward for 4 stages"},
		{[]string{"timeline", "no/such.csv"}, ExitConfig, "no such file"},
		{[]string{"topology", "one_peer", "0"}, ExitConfig, "want a number"},
		{[]string{"topology", "one_peer", "5000"}, ExitConfig, "1 … 4096"},
	} {
		var out, err bytes.Buffer
		if code := Main(c.args, &out, &err); code != c.code || !strings.Contains(out.String()+err.String(), c.want) {
			t.Errorf("%v: exit %d, want %d and %q in\n%s%s", c.args, code, c.code, c.want, out.String(), err.String())
		}
	}
	if b, err := os.ReadFile(svg); err != nil || !bytes.Contains(b, []byte("<svg")) {
		t.Errorf("%d bytes of figure, %v", len(b), err)
	}
}
