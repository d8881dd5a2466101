package reproduce

import (
	"slices"
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	var grouped []string
	for _, g := range Groups() {
		if _, err := Studies.Parse(g.Name); err == nil || g.Name == "all" || g.Doc == "" {
			t.Errorf("group %q", g.Name)
		}
		grouped = append(grouped, g.Studies()...)
	}
	slices.Sort(grouped)
	if all := Studies.Names(); !slices.Equal(grouped, all) {
		t.Errorf("groups have %v, there are %v", grouped, all)
	}
	for _, c := range []struct{ in, want string }{
		{"ddl", "ddl"}, {"codecs", "codec-error ef-divergence grace-bytes"}, {"all", strings.Join(Studies.Names(), " ")},
		{"ef-divergence codecs ddl ddl", "ef-divergence codec-error grace-bytes ddl"}, {"tf-ps(fit=true)", "tf-ps(fit=true)"},
	} {
		if got, err := Named(strings.Fields(c.in)...); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v", c.in, got, err)
		}
	}
	for _, bad := range []string{"dll", "all(quick)", "tf-ps(fitt=true)", ""} {
		if got, err := Named(bad); err == nil || !strings.Contains(err.Error(), "asynchrony, codecs, large-batch, learning, scaling, all") {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}
