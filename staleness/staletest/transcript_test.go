package staletest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/staleness"
	"github.com/gradlab/gradlab/staleness/staletest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range staleness.Policies.Names() {
				if strings.Contains(string(text), "\npolicy "+name) {
					seen[name] = true
				}
			}
			got, err := staletest.Transcript(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(text); got != want {
				t.Errorf("the transcript changed (-update rewrites it):\n%s", firstDifference(got, want))
			}
		})
	}
	for _, name := range staleness.Policies.Names() {
		if !seen[name] {
			t.Errorf("policy %s has no transcript in testdata; write the commands and run with -update", name)
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return strings.Join(append(g[max(0, i-3):i:i], "got  "+g[i], "want "+strings.Join(w[min(i, len(w)):min(i+1, len(w))], "")), "\n")
		}
	}
	return "lines are missing at the end"
}

func TestTranscriptRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"policy nosuch":                         "no policy named",
		"workers 2":                             "which policy?",
		"policy bsp\npush 0":                    "how many workers?",
		"policy bsp\nworkers 0":                 "want at least 1",
		"policy bsp\nworkers two":               "want a number",
		"policy bsp\nworkers 2\npush 2":         "no worker 2",
		"policy bsp\nworkers 2\npush 0\npush 0": "cannot do that now",
		"policy bsp\nworkers 2\njoin 0":         "cannot do that now",
	} {
		if _, err := staletest.Transcript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", text, err, want)
		}
	}
}
