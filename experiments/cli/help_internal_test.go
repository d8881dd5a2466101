package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
)

// What help says to try can be run.
func TestHelpNamesCommandsThatRun(t *testing.T) {
	shelf := &experiments.Shelf{}
	for _, k := range kinds() {
		switch k.name {
		case "keys", "recipes", "studies", "data": // no values of their own; files
			continue
		}
		for _, en := range k.entries {
			if k.name == "laws" && en.Name == "trace" { // wants a file
				continue
			}
			var b bytes.Buffer
			(&env{out: &b}).helpEntry(k, en)
			_, line, ok := strings.Cut(b.String(), "gradlab run ")
			line, _, _ = strings.Cut(line, "\n")
			args := strings.Fields(strings.ReplaceAll(line, "'", "")) // no spec has a space
			if !ok || len(args) < 2 {
				t.Errorf("%s: no command in\n%s", en.Name, b.String())
				continue
			}
			_, runs, err := load(args[0], args[1:], false)
			if err == nil {
				err = experiments.CheckAll(runs[:1], experiments.Places{Shelf: shelf}, nil)
			}
			if err != nil {
				t.Errorf("gradlab run %s: %v", line, err)
			}
		}
	}
}
