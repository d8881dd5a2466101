package cli

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/reproduce"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
)

//go:embed help/*.txt
var helpFiles embed.FS

// docsText is what the types of parts say of themselves: for each a line "== " with
// its import path and name, and then its comment as text.
//
//go:generate go test . -run TestDocsAreFresh -update
//go:embed docs.txt
var docsText string

// docs is docsText by type; parts from elsewhere have none.
var docs = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(docsText, "\n== ") {
		name, text, _ := strings.Cut(strings.TrimPrefix(part, "== "), "\n")
		out[name] = strings.TrimSpace(text)
	}
	return out
})

// topic is a page of help. Its first line is its title.
type topic struct{ name, title, text string }

func topics() []topic {
	files, _ := fs.ReadDir(helpFiles, "help")
	var out []topic
	for _, f := range files {
		b, _ := helpFiles.ReadFile("help/" + f.Name())
		title, text, _ := strings.Cut(string(b), "\n")
		out = append(out, topic{strings.TrimSuffix(f.Name(), ".txt"), title, strings.TrimSpace(text)})
	}
	return out
}

// helpCommand explains a command, a topic, or anything that has a name: a codec, a
// policy, a key, a recipe.
func (e *env) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC|NAME]",
		Short: "Topics, commands, and anything that has a name",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				e.helpIndex(root)
				return nil
			}
			if c, rest, err := root.Find(args); err == nil && c != root && len(rest) == 0 {
				c.InitDefaultHelpFlag()
				return c.Help()
			}
			name := strings.Join(args, " ")
			for _, t := range topics() {
				if t.name == name {
					fmt.Fprintf(e.out, "%s\n\n%s\n", t.title, t.text)
					return nil
				}
			}
			if e.helpNamed(name) {
				return nil
			}
			for _, k := range kinds() {
				if k.name == name {
					e.tellKind(k, false)
					fmt.Fprintln(e.out, "\ngradlab help NAME explains one of them.")
					return nil
				}
			}
			if h := config.Meaning(name); h != "" {
				return usageError{fmt.Errorf("no help on %q; %s", name, h)}
			}
			return usageError{fmt.Errorf("no help on %q; %s", name, orElsewhere(root, name, helpWords(root), "gradlab help lists the topics"))}
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return helpWords(root), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func (e *env) helpIndex(root *cobra.Command) {
	fmt.Fprint(e.out, "gradlab help WORD explains a topic, a command, or anything that has a name:\ngradlab help topk, gradlab help eval_every, gradlab help quickstart\n\nTopics\n")
	for _, t := range topics() {
		fmt.Fprintf(e.out, "  %-11s %s\n", t.name, t.title)
	}
	fmt.Fprintln(e.out, "\nCommands")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			fmt.Fprintf(e.out, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
}

// helpNamed explains every entry of that name; a name may be in several lists.
func (e *env) helpNamed(name string) (found bool) {
	for _, k := range kinds() {
		for _, en := range k.entries() {
			if en.Name != name {
				continue
			}
			if found {
				fmt.Fprintln(e.out)
			}
			found = true
			e.helpEntry(k, en)
		}
	}
	return found
}

// wants is what recipe quickstart lacks for kinds of things, or single models, to be
// tried in it; single modes say it themselves.
var wants = map[string]string{
	"faults rejoin": " codec=raw elastic=on", "faults leave": " codec=raw elastic=on", "faults join": " codec=raw elastic=on",
	"policies": " mode=server", "correctors": " mode=server policy=asp optimizer=sgd", "placements": " mode=server servers=2",
	"observations gap": " mode=server", "observations order_log": " mode=server", "observations noise_scale": " codec=raw mode=reduce",
	"batch-schedules":   " mode=reduce",
	"side-schedules":    " 'data=imagenet(size=288)' model=resnet50",
	"graphs":            " codec=raw mode=sgp",
	"nodes":             " run=ring cluster=none device=v100 network.per_host=8",
	"models airbench94": " data=cifar10", "models alexnet": " data=imagenet", "models inception3": " data=imagenet", "models vgg16": " data=imagenet",
}

// readsTexts reports whether a model can be built for texts and not for small pictures.
func readsTexts(name string) bool {
	spec, err := nn.Models.Parse(name)
	if err != nil {
		return false
	}
	_, texts := spec.New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 8, W: 1}, Vocabulary: 10, Classes: 10, Targets: 8})
	_, pictures := spec.New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 8, W: 8}, Classes: 10})
	return texts == nil && pictures != nil
}

func (e *env) helpEntry(k kind, en registry.Entry) {
	fmt.Fprintf(e.out, "%s: %s\n", en.Name, en.About)
	switch k.name {
	case "keys":
		key := config.Default()
		fmt.Fprintf(e.out, "\nA key of configurations; its default is %s.\n  gradlab run quickstart %s=…\n", key.Get(en.Name), en.Name)
		for _, other := range kinds() {
			if other.name != "keys" && strings.Contains(", "+other.used+",", ", "+en.Name+",") {
				fmt.Fprintf(e.out, "  gradlab list %s\n", other.name)
			}
		}
		return
	case "recipes":
		fmt.Fprintf(e.out, "\nA recipe (gradlab help recipes).\n  gradlab run %s\n  gradlab recipe %s\n", en.Name, en.Name)
		if r, err := config.LoadRecipe(en.Name); err == nil && r.Paper != nil {
			e.helpPaper(r)
		}
		return
	case "studies":
		e.helpDoc(en)
		fmt.Fprintf(e.out, "\n  gradlab reproduce %s\n", en.Name)
		if s, ok := reproduce.Studies.Proto(en.Name); ok {
			fmt.Fprintln(e.out, "\nMechanisms, each to be noticed when it is missing:")
			for _, m := range s.Mechanisms() {
				fmt.Fprintf(e.out, "  --without '%s': %s\n", m.Name, m.Doc)
			}
		}
		e.helpOptions(en)
		return
	case "pipelines":
		e.helpDoc(en)
		fmt.Fprintf(e.out, "\nA schedule of a pipeline.\n  gradlab timeline %s 4 8\n", en.Spec)
		e.helpOptions(en)
		return
	}
	e.helpDoc(en)
	key, _, _ := strings.Cut(k.used, ",")
	recipe, beside := "quickstart", wants[k.name]+wants[k.name+" "+en.Name]
	if m, ok := train.Modes.Proto(en.Name); ok && k.name == "modes" {
		beside = strings.TrimSuffix(" "+m.Traits(&train.Job{Mode: m}).Try, " ")
	}
	if k.name == "models" && readsTexts(en.Name) {
		beside = " data=shakespeare"
	}
	if k.name == "clusters" || k.name == "devices" || k.name == "transports" { // whose models have profiles
		recipe = "scaling run=ring"
	}
	if k.name == "nodes" {
		recipe = "scaling"
	}
	value := en.Spec
	if k.name == "optimizers" && slices.Contains([]string{"clip", "clipvalue", "decay"}, en.Name) { // filters of a rule behind them
		value = "chain(" + value + ",sgd)"
	}
	fmt.Fprintf(e.out, "\nOne of the %s.\n  gradlab run %s%s '%s=%s'\n", k.name, recipe, beside, key, value)
	if k.name == "codecs" {
		fmt.Fprintf(e.out, "  gradlab codec check '%s'\n", en.Spec)
	}
	e.helpOptions(en)
	e.helpMeasured(k.name, en.Name)
}

// helpOptions lists what may stand in the brackets of an entry's text.
func (e *env) helpOptions(en registry.Entry) {
	if len(en.Params) == 0 {
		return
	}
	fmt.Fprintln(e.out, "\nOptions, with their defaults:")
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, p := range en.Params {
		fmt.Fprintf(w, "  %s=%s\t%s\t%s\n", p.Key, p.Default, p.Type, p.Doc)
	}
	w.Flush()
}

// helpDoc prints what the type of an entry says of itself: formula, paper, tuning
// and cost.
func (e *env) helpDoc(en registry.Entry) {
	if text := docs()[en.Type]; text != "" {
		fmt.Fprintf(e.out, "\n%s\n", text)
	}
}

// helpWords is everything there is help on.
func helpWords(root *cobra.Command) []string {
	var out []string
	for _, t := range topics() {
		out = append(out, t.name)
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	for _, k := range kinds() {
		out = append(out, k.name)
		for _, en := range k.entries() {
			out = append(out, en.Name)
		}
	}
	return out
}

// elsewhere is what to type for words that are no commands and no names here, but in
// other tools; a word of one spelling each, apart by spaces.
var elsewhere = map[string]string{
	"train training fit start":        "gradlab run RECIPE trains; gradlab run quickstart is one to begin with",
	"plot plots chart figures":        "gradlab report RUNS --figures FOLDER draws figures",
	"resume continue restart":         "gradlab run with the same recipe and keys, and --resume, goes on with a stopped run",
	"glossary terms words vocabulary": "docs/glossary.md defines the words; gradlab help NAME explains anything that has a name",
	"dashboard ui web":                "gradlab serve shows runs in a browser",
	"new create scaffold template":    "gradlab init codec NAME, or gradlab init study NAME, writes something to begin with",
}

// orElsewhere words what a word means here, the subcommand that has its name, the nearest
// spelling, or else a next step.
func orElsewhere(root *cobra.Command, s string, from []string, step string) string {
	for words, say := range elsewhere {
		if slices.Contains(strings.Fields(words), strings.ToLower(s)) {
			return say
		}
	}
	for _, c := range root.Commands() {
		for _, sub := range c.Commands() {
			if sub.Name() == s && sub.IsAvailableCommand() {
				return fmt.Sprintf("did you mean gradlab %s %s?", c.Name(), s)
			}
		}
	}
	return nearestOr(s, from, step)
}

// nearestOr words the nearest spelling, or else a next step.
func nearestOr(s string, from []string, step string) string {
	if n := registry.Nearest(s, from); n != "" {
		return fmt.Sprintf("did you mean %q? %s", n, step)
	}
	return step
}
