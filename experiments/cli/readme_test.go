package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/reproduce"
	"github.com/gradlab/gradlab/experiments/sweep"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/staleness"
)

// words splits a command as a shell would, up to a comment.
func words(line string) (out []string) {
	for _, m := range regexp.MustCompile(`#.*|(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		if strings.HasPrefix(m, "#") {
			break
		}
		out = append(out, strings.ReplaceAll(m, "'", ""))
	}
	return out
}

// shownToReaders is the text of README, CONTRIBUTING and of all pages under docs.
func shownToReaders(t *testing.T) (page []byte) {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d pages under docs, %v", len(names), err)
	}
	for _, n := range append(names, "../../README.md", "../../CONTRIBUTING.md") {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, b...)
	}
	return page
}

// Every command that README and the pages under docs show is one: recipes and keys
// of runs and sweeps are resolved, studies are there, lists are listed.
func TestPagesShowCommands(t *testing.T) {
	t.Parallel()
	page := shownToReaders(t)
	valued := map[string]bool{"--repeats": true, "--shard": true, "--zip": true, "--exclude": true, "--net": true, "--tune": true, "--budget": true, "--without": true}
	checked := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(string(block[1]), "\\\n", "")) {
			w := words(line)
			if len(w) < 2 || w[0] != "gradlab" {
				continue
			}
			command, args, flags := w[1], []string(nil), map[string]string{}
			for i := 2; i < len(w); i++ {
				switch {
				case valued[w[i]] && i+1 < len(w):
					flags[w[i]] = w[i+1]
					i++
				case strings.HasPrefix(w[i], "--"):
					flags[w[i]] = ""
				default:
					args = append(args, w[i])
				}
			}
			if len(args) > 0 && (strings.HasPrefix(args[0], "FOLDER") || args[0] == "…") {
				continue
			}
			_, quick := flags["--quick"]
			checked[command]++
			switch command {
			case "run":
				r, err := config.LoadRecipe(args[0])
				if err == nil {
					_, err = r.Runs(args[1:], quick)
				}
				if err != nil {
					t.Errorf("%s\n%v", line, err)
				}
			case "sweep":
				r, err := config.LoadRecipe(args[0])
				if err != nil {
					t.Errorf("%s\n%v", line, err)
					continue
				}
				s := sweep.Space{Recipe: r, Args: args[1:], Quick: quick}
				if z, ok := flags["--zip"]; ok {
					s.Zip = []string{z}
				}
				if e, ok := flags["--exclude"]; ok {
					s.Exclude = []string{e}
				}
				jobs, err := s.Jobs()
				if err != nil || len(jobs) == 0 {
					t.Errorf("%s\n%d jobs, %v", line, len(jobs), err)
				}
				if text, ok := flags["--tune"]; ok {
					over, err := sweep.ParseTuning([]string{text})
					if err == nil {
						_, err = sweep.Tuning{Over: over, Validation: 0.1}.Plan(jobs)
					}
					if err != nil {
						t.Errorf("%s\n%v", line, err)
					}
				}
			case "reproduce":
				if _, err := reproduce.Named(args...); err != nil {
					t.Errorf("%s\n%v", line, err)
				} else if name, ok := flags["--without"]; ok && !slices.ContainsFunc(reproduce.Studies.MustParse(args[0]).Mechanisms(), func(m reproduce.Mechanism) bool { return m.Name == name }) {
					t.Errorf("%s\n%s has no such mechanism", line, args[0])
				}
			case "list":
				program.Finish(t, 0, w[1:]...)
			default:
				program.Finish(t, 0, command, "--help")
			}
		}
	}
	for command, least := range map[string]int{"run": 12, "sweep": 3, "reproduce": 8, "runs": 5} {
		if checked[command] < least {
			t.Errorf("%d commands begin with gradlab %s, want %d", checked[command], command, least)
		}
	}
}

// The command at the end of the page's codec in 40 lines is the one that the
// example's own test resolves.
func TestPageRunsTheExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/codecs.md")
	if err != nil {
		t.Fatal(err)
	}
	test, err := os.ReadFile("../../examples/codec/own/main_test.go")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`go run \./own run (\w+) '([^']*)'`).FindSubmatch(page)
	tested := regexp.MustCompile(`recipe = "(\w+)"\s+codecs = "([^"]*)"`).FindSubmatch(test)
	if command == nil || tested == nil || string(command[1]) != string(tested[1]) || string(command[2]) != string(tested[2]) {
		t.Errorf("the page says %q, the test resolves %q", command, tested)
	}
}

// README's table of what there is names what is enrolled, and counts it rightly.
func TestReadmeNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.Trim(cells[1], " *")] = cells[2]
		}
	}
	for row, names := range map[string][]string{
		"policies":   staleness.Policies.Names(),
		"optimizers": append(sgd.Optimizers.Names(), "filters"),
		"schedules":  lrschedule.Specs.Names(),
	} {
		found := regexp.MustCompile(`\w+`).FindAllString(rows[row], -1)
		for _, w := range found {
			if !slices.Contains(names, w) {
				t.Errorf("README's row of %s has %q, which is not one", row, w)
			}
		}
		if len(found) < 10 {
			t.Errorf("README's row of %s has %d names", row, len(found))
		}
	}
	if want := fmt.Sprintf(" %d published tables", len(reproduce.Studies.Names())); !strings.HasPrefix(rows["studies"], want) {
		t.Errorf("README's row of studies begins with%q; there are%s", rows["studies"], want)
	}
}
