package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// Everything that the page for people who come from PyTorch says is called so here
// is a configuration that can be run, or a command that there is.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	page, err := os.ReadFile("../../docs/from-pytorch.md")
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := config.LoadRecipe("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|---") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2]+cells[3], -1) {
			words := strings.Fields(m[1])
			entries++
			switch {
			case words[0] == "gradlab":
				if c, _, err := (&env{v: viper.New()}).root().Find(words[1:2]); err != nil || c.Name() != words[1] {
					t.Errorf("%s: no such command", m[1])
				}
			case strings.HasSuffix(m[1], "="):
				c := config.Default()
				if c.Get(strings.TrimSuffix(m[1], "=")) == "" {
					t.Errorf("%s: no such key", m[1])
				}
			default:
				about := []string{"codec=raw"}
				if strings.Contains(line, "cycle=") || strings.Contains(line, "localsgd") {
					about = append(about, "mode=reduce")
				}
				runs, err := recipe.Runs(append(about, words...), false)
				if err == nil {
					err = config.CheckAll(runs, config.Places{}, nil)
				}
				if err != nil {
					t.Errorf("%s: %v", m[1], err)
				}
			}
		}
	}
	if entries < 20 {
		t.Errorf("%d entries found", entries)
	}
}
