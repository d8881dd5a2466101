package cli

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
)

// What help says to try can be run.
func TestHelpNamesCommandsThatRun(t *testing.T) {
	shelf := &config.Shelf{}
	for _, k := range kinds() {
		switch k.name {
		case "keys", "recipes", "studies", "data", "pipelines": // no values of their own; files; another command
			continue
		}
		for _, en := range k.entries() {
			if k.name == "laws" && en.Name == "trace" || k.name == "models" && en.Name == "external" { // wants a file, a program
				continue
			}
			t.Run(k.name+" "+en.Name, func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				(&env{out: &b}).helpEntry(k, en)
				_, line, ok := strings.Cut(b.String(), "gradlab run ")
				line, _, _ = strings.Cut(line, "\n")
				args := strings.Fields(strings.ReplaceAll(line, "'", "")) // no spec has a space
				if !ok || len(args) < 2 {
					t.Fatalf("no command in\n%s", b.String())
				}
				_, runs, err := (&env{}).load(args[0], args[1:], false)
				if err == nil {
					err = config.CheckAll(runs[:1], config.Places{Shelf: shelf}, nil)
				}
				if err != nil {
					t.Errorf("gradlab run %s: %v", line, err)
				}
			})
		}
	}
}

// shown are the commands that help shows: lines of topics, and of what commands say
// of themselves, that begin with gradlab, without what stands behind two spaces.
func shown(t *testing.T) map[string][]string {
	out := map[string][]string{}
	add := func(where, text string) {
		for line := range strings.Lines(text) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "gradlab ")
			if !ok || !strings.HasPrefix(line, "  ") {
				continue
			}
			var words []string
			for _, w := range regexp.MustCompile(`  +|(?:'[^']*'|[^\s'])+`).FindAllString(strings.TrimSpace(command), -1) {
				if strings.HasPrefix(w, "  ") || w == ">" {
					break
				}
				words = append(words, strings.ReplaceAll(w, "'", ""))
			}
			out[where] = append(out[where], strings.Join(words, "\x00"))
		}
	}
	for _, tp := range topics() {
		add("help "+tp.name, tp.text)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		add(c.CommandPath(), c.Long)
		add(c.CommandPath(), c.Example)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&env{v: viper.New()}).root())
	return out
}

// Every command that a help text shows is one that can be given: its flags are
// there, its filters are read, runs and sweeps resolve and can begin, and what only
// tells something tells it.
func TestEveryExampleOfHelp(t *testing.T) {
	patience.Alone(t)
	t.Chdir(t.TempDir())
	rates := ""
	for _, codec := range []string{"raw", "bf16", "feedback(topk(keep=0.01))", "qsgd(bits=4)"} {
		rates += "'" + codec + "': {encode: 2e9, decode: 5e9}\n"
	}
	for file, text := range map[string]string{"mine.yaml": "base: quickstart\n", "rates.yaml": rates, "room.yaml": "keys: {network.bandwidth: 1Gbps}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shelf := &config.Shelf{}
	seen := map[string]int{}
	for where, lines := range shown(t) {
		for _, line := range lines {
			line = strings.NewReplacer("RECIPE", "quickstart", "FOLDER/config.yaml", "mine.yaml", "device.codec=mine.yaml", "device.codec=rates.yaml", "./mine.yaml,", "./room.yaml,").Replace(line)
			words := strings.Split(line, "\x00")
			show := where + ": gradlab " + strings.Join(words, " ")
			var b bytes.Buffer
			e := &env{out: &b, err: &b, v: viper.New(), args: words}
			root := e.root()
			root.InitDefaultCompletionCmd()
			root.InitDefaultHelpCmd()
			c, rest, err := root.Find(words)
			if err != nil || c == root {
				t.Errorf("%s: no such command", show)
				continue
			}
			if err := c.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
				t.Errorf("%s: %v", show, err)
				continue
			}
			args := c.Flags().Args()
			if err := c.ValidateArgs(args); err != nil {
				t.Errorf("%s: %v", show, err)
			}
			seen[c.Name()]++
			run := func(words ...string) {
				if code := Main(words, &b, &b); code != ExitOK {
					t.Errorf("%s: exit %d: %s", show, code, b.String())
				}
			}
			switch strings.TrimPrefix(c.CommandPath(), "gradlab ") {
			case "run":
				quick, _ := c.Flags().GetBool("quick")
				_, runs, err := (&env{}).load(args[0], args[1:], quick)
				if err == nil {
					err = config.CheckAll(runs, config.Places{Shelf: shelf}, nil)
				}
				if err != nil {
					t.Errorf("%s: %v", show, err)
				}
			case "sweep":
				run(append(slices.Clone(words), "--dry-run")...)
			case "list", "help", "recipe", "topology", "graph", "timeline", "completion", "runs fields":
				run(words...)
			default:
				if c.Parent().Name() != "runs" {
					continue
				}
				for _, a := range args {
					if !store.IsCondition(a) {
						continue
					}
					if _, err := store.ParseCondition(a, time.Now()); err != nil {
						t.Errorf("%s: %v", show, err)
					}
				}
			}
		}
	}
	for _, name := range []string{"run", "sweep", "list", "help", "recipe", "compare"} {
		if seen[name] == 0 {
			t.Errorf("no example of %s was found", name)
		}
	}
}

// The recipe that help shows is one.
func TestHelpShowsARecipe(t *testing.T) {
	i := slices.IndexFunc(topics(), func(tp topic) bool { return tp.name == "recipes" })
	_, text, _ := strings.Cut(topics()[i].text, "This is a whole one:\n\n")
	text, _, _ = strings.Cut("\n"+text, "\n\n")
	r, err := config.ParseRecipe("help", "help.yaml", []byte(strings.ReplaceAll(text, "\n  ", "\n")))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for quick, want := range map[bool]int{false: 12, true: 8} {
		runs, err := r.Runs(nil, quick)
		if err == nil {
			err = config.CheckAll(runs, config.Places{}, nil)
		}
		if err != nil || len(runs) != want {
			t.Errorf("quick=%v: %d runs, %v", quick, len(runs), err)
		}
	}
}

// What is typed by habit is told where it belongs, wherever it is typed.
func TestHabits(t *testing.T) {
	patience.Alone(t)
	for _, c := range []struct{ line, want string }{
		{"run quickstart lr=0.1", "the learning rate is the schedule's: schedule=constant(lr=0.1)"},
		{"run quickstart --lr 0.1", "schedule=constant(lr=0.1)"},
		{"run quickstart --learning-rate=0.1", "schedule=constant(lr=0.1)"},
		{"run quickstart --weight_decay 1", "optimizer=chain(decay(rate=0.0005),momentum)"},
		{"run quickstart --codec=raw", "codec is a key, given without dashes: codec=…"},
		{"run quickstart resume=true", "--resume is a flag: gradlab run … --resume"},
		{"run quickstart resume", "--resume is a flag: gradlab run … --resume"},
		{"run quickstart out=there", "--out is a flag: gradlab run … --out=there"},
		{"sweep quickstart repeats=3", "--repeats is a flag: gradlab sweep … --repeats=3"},
		{"sweep quickstart num_workers=3 --dry-run", "workers=8"},
		{"run quickstart codec=none", "no encoding is raw: codec=raw"},
		{"run quickstart optimizer=sgd(momentum=0.9)", "optimizer=momentum(beta=0.9)"},
		{"run quickstart batch_size=8", "batch=32"},
		{"runs list lr>0.1", "schedule=constant(lr=0.1)"},
		{"help weight_decay", "optimizer=chain(decay(rate=0.0005),momentum)"},
	} {
		var out, err bytes.Buffer
		if code := Main(strings.Fields(c.line), &out, &err); code != ExitConfig || !strings.Contains(err.String(), c.want) {
			t.Errorf("gradlab %s: exit %d, %q does not say %q", c.line, code, err.String(), c.want)
		}
	}
}

// Every command stands under a heading, so that help has none left over.
func TestEveryCommandHasAHeading(t *testing.T) {
	for _, c := range (&env{v: viper.New()}).root().Commands() {
		if c.GroupID == "" && !c.Hidden {
			t.Errorf("%s stands under none of the headings", c.Name())
		}
	}
}
