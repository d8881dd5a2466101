package cli_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/cli"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/patience"
)

// Help on a transport, a cluster or a device tells every value with its spread and source.
func TestHelpTellsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	tells := func(name string, want ...string) {
		t.Helper()
		var b bytes.Buffer
		if code := cli.Main([]string{"help", name}, &b, &b); code != cli.ExitOK {
			t.Fatalf("%s: exit %d: %s", name, code, b.String())
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("help %s does not tell %q:\n%s", name, w, b.String())
			}
		}
	}
	spreads := func(all []hardware.Parameter) (want []string) {
		for _, p := range all {
			if want = append(want, p.Key, p.Value, p.Source); p.Plus > 0 {
				want = append(want, fmt.Sprintf("± %.3g", p.Plus))
			} else if p.Times > 1 {
				want = append(want, fmt.Sprintf("×÷ %g", p.Times))
			}
		}
		return want
	}
	for _, n := range hardware.Transports() {
		tr, err := hardware.LoadTransport(n)
		if err != nil {
			t.Fatal(err)
		}
		tells(n, append(spreads(tr.Keys), tr.Source)...)
	}
	for _, n := range hardware.Nodes() {
		if node, err := hardware.LoadNode(n); err != nil {
			t.Fatal(err)
		} else if n != hardware.Unknown { // which is a transport too
			tells(n, append(spreads(node.Keys), node.Source)...)
		}
	}
	for _, n := range hardware.Clusters() {
		c, err := hardware.LoadCluster(n)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Concat(spreads(c.Spread), c.Fitted, c.Stated, []string{c.Source})
		for _, a := range c.Assignments() {
			want = append(want, a[0], a[1])
		}
		tells(n, want...)
	}
	for _, n := range hardware.Devices() {
		d, err := hardware.LoadDevice(n)
		if err != nil {
			t.Fatal(err)
		}
		tells(n, append(slices.Collect(maps.Keys(d.Rates)), d.Source)...)
	}
}
