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
	for _, kind := range hardware.Kinds() {
		for _, n := range hardware.Names(kind) {
			sheet, err := hardware.Load(kind, n)
			if err != nil {
				t.Fatal(err)
			}
			if kind == hardware.Node && n == hardware.Unknown { // which is a transport too
				continue
			}
			tells(n, slices.Concat(spreads(sheet.Keys), sheet.Fitted, sheet.Stated, slices.Collect(maps.Keys(sheet.Rates)), []string{sheet.Source})...)
		}
	}
}
