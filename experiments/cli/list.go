package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/pipeline"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/reproduce"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/registry"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// kinds are the things there are, by the word that lists them.
func kinds() []kind {
	return []kind{
		{"codecs", "codec, down_codec", compress.Families.Entries},
		{"optimizers", "optimizer, outer", sgd.Optimizers.Entries},
		{"schedules", "schedule", lrschedule.Specs.Entries},
		{"batch-schedules", "batch_schedule", lrschedule.Batches.Entries},
		{"side-schedules", "side_schedule", lrschedule.Sides.Entries},
		{"policies", "policy", staleness.Policies.Entries},
		{"correctors", "corrector", staleness.Correctors.Entries},
		{"topologies", "topology", collective.Topologies.Entries},
		{"graphs", "graph", collective.Graphs.Entries},
		{"pipelines", "gradlab timeline", pipeline.Schedules.Entries},
		{"placements", "placement", ps.Placements.Entries},
		{"modes", "mode", train.Modes.Entries},
		{"overlaps", "overlap", train.Overlaps.Entries},
		{"models", "model", nn.Models.Entries},
		{"profiles", "timing", profile.Profiles.Entries},
		{"laws", "device.law", timing.Laws.Entries},
		{"constants", "constants", config.Ideal.Entries},
		{"faults", "faults", nemesis.Faults.Entries},
		{"observations", "observe", config.Observations},
		{"nets", "net", config.Nets.Entries},
		{"elasticities", "elastic", config.Elasticities.Entries},
		{"averages", "ema", config.Averages.Entries},
		{"devices", "device", sheets(hardware.Device)},
		{"clusters", "cluster", sheets(hardware.Cluster)},
		{"transports", "transport", sheets(hardware.Transport)},
		{"nodes", "node", sheets(hardware.Node)},
		{"data", "data", data.Sets.Entries},
		{"recipes", "gradlab run", recipes},
		{"studies", "gradlab reproduce", studies},
		{"keys", "key=value", keys},
	}
}

type kind struct {
	name, used string
	entries    func() []registry.Entry // reads files for some kinds
}

func recipes() []registry.Entry {
	var out []registry.Entry
	for _, n := range config.RecipeNames() {
		if r, err := config.LoadRecipe(n); err == nil {
			out = append(out, registry.Entry{Name: n, About: r.About, Spec: n})
		}
	}
	return out
}

// sheets lists the sheets of a kind.
func sheets(kind string) func() []registry.Entry {
	return func() (out []registry.Entry) {
		for _, n := range hardware.Names(kind) {
			if s, err := hardware.Load(kind, n); err == nil {
				out = append(out, registry.Entry{Name: n, About: s.About, Spec: n})
			}
		}
		return out
	}
}

// studies are the studies, then the names of groups of them.
func studies() []registry.Entry {
	out := reproduce.Studies.Entries()
	for _, g := range reproduce.Groups() {
		out = append(out, registry.Entry{Name: g.Name, About: g.Doc + ": " + strings.Join(g.Studies(), ", "), Spec: g.Name})
	}
	return append(out, registry.Entry{Name: "all", About: "every study", Spec: "all"})
}

func keys() []registry.Entry {
	var out []registry.Entry
	for _, k := range config.Keys() {
		out = append(out, registry.Entry{Name: k.Name, About: k.Doc, Spec: k.Name + "=" + k.Default})
	}
	return out
}

func (e *env) listCommand() *cobra.Command {
	var asJSON bool
	var words []string
	for _, k := range kinds() {
		words = append(words, k.name)
	}
	c := &cobra.Command{
		Use:   "list [" + strings.Join(words, "|") + "]",
		Short: "Everything there is, by the name it is used by",
		RunE: func(cmd *cobra.Command, args []string) error {
			all := kinds()
			if len(args) > 1 {
				return usageError{fmt.Errorf("list takes one word at most")}
			}
			if len(args) == 1 {
				var one []kind
				for _, k := range all {
					if k.name == args[0] {
						one = append(one, k)
					}
				}
				if one == nil {
					return usageError{fmt.Errorf("nothing called %q to list; %s", args[0], registry.Suggest(args[0], words))}
				}
				all = one
			}
			if asJSON {
				out := map[string][]registry.Entry{}
				for _, k := range all {
					out[k.name] = k.entries()
				}
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				return enc.Encode(out)
			}
			for i, k := range all {
				if i > 0 {
					fmt.Fprintln(e.out)
				}
				e.tellKind(k, len(args) == 1)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}

// tellKind lists the things of a kind, with their options if that is wanted.
func (e *env) tellKind(k kind, options bool) {
	fmt.Fprintf(e.out, "%s (%s)\n", k.name, k.used)
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, en := range k.entries() {
		fmt.Fprintf(w, "  %s\t%s\n", en.Spec, en.About)
		for _, p := range en.Params {
			if options {
				fmt.Fprintf(w, "    %s=%s\t  %s: %s\n", p.Key, p.Default, p.Type, p.Doc)
			}
		}
	}
	w.Flush()
}
