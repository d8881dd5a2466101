package launch

import (
	"strings"
	"testing"
	"testing/quick"
	"time"
)

// Every name is one that DNS, and so Kubernetes, takes, with a rank behind it.
func TestNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"goyal2017": "goyal2017", "My Run_2.yaml": "my-run-2-yaml", "8workers": "gradlab-8workers",
		"": "gradlab", "é": "gradlab", strings.Repeat("long-", 20): strings.TrimSuffix(strings.Repeat("long-", 8), "-"),
	} {
		if got := Named(text); got != want {
			t.Errorf("Named(%q) is %q, want %q", text, got, want)
		}
	}
	if err := quick.Check(func(text string) bool {
		n := Named(text)
		return 0 < len(n) && len(n) <= longestName+len("gradlab-") && n[0] >= 'a' && n[0] <= 'z' && !strings.HasSuffix(n, "-") && strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", 30 * time.Second: "30s", 61 * time.Minute: "1h1m"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) is %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(short(d)); err != nil || back != d {
			t.Errorf("short(%v) is read as %v, %v", d, back, err)
		}
	}
}
