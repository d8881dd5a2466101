package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
)

func (e *env) benchCodecsCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "codecs [SPEC …]",
		Short: "How long codecs take to encode and decode on a core of this machine",
		Long: `Codecs measures how long encoding and decoding take on one core, by the size and
shape of a block, and the rounds of exchanges without servers, and writes a table of
rates. A run on the virtual cluster bills codecs by such a table:

  gradlab bench codecs 'qsgd(bits=4)' 'feedback(topk(keep=0.01))' --out mine.yaml
  gradlab run quickstart device.codec=mine.yaml

Without a SPEC it measures every codec with its defaults, those of the recipes and
those that advise tries: some minutes. gradlab help codec-time says how a table is
used.`,
		RunE: func(_ *cobra.Command, args []string) error {
			specs := args
			if len(specs) == 0 {
				var err error
				if specs, err = knownCodecs(); err != nil {
					return err
				}
			}
			for i, s := range specs {
				f, err := compress.Parse(s)
				if err != nil {
					return usageError{err}
				}
				specs[i] = compress.Spec(f)
			}
			t, err := coding.Table(specs, func(format string, a ...any) { fmt.Fprintf(e.err, format+"\n", a...) })
			if err != nil {
				return err
			}
			t.Name = "standard output"
			t.Command = strings.Join(append([]string{"gradlab bench codecs"}, args...), " ")
			if out == "" {
				_, err = e.raw.Write(t.Text())
				return err
			}
			t.Name = strings.TrimSuffix(filepath.Base(out), ".yaml")
			return os.WriteFile(out, t.Text(), 0o644)
		},
	}
	c.Flags().StringVar(&out, "out", "", "the file to write, NAME.yaml; else the table is printed")
	return c
}

// often are settings that people try beside the defaults.
var often = []string{
	"topk(keep=0.1)", "topk(keep=0.01)", "topk(keep=0.001)", "feedback(topk(keep=0.1))", "feedback(topk(keep=0.05))", "feedback(topk(keep=0.01))", "feedback(topk(keep=0.001))",
	"feedback(topk(keep=0.001,values=bf16))", "feedback(randomk(keep=0.1))", "qsgd(bits=2)", "qsgd(bits=4)", "qsgd(bits=8)", "uniform(bits=4)", "intsum(bits=8)",
	"eden(bits=1)", "eden(bits=2)", "feedback(powersgd(rank=1))", "feedback(powersgd(rank=2))", "feedback(powersgd(rank=4))", "feedback(sign)", "feedback(onebit)",
}

// knownCodecs are all codecs with their defaults, those of the recipes, and those
// that advise tries.
func knownCodecs() ([]string, error) {
	all := append(slices.Clone(advise.Codecs), often...)
	for _, entry := range compress.Families.Entries() {
		all = append(all, entry.Name)
	}
	for _, name := range config.RecipeNames() {
		r, err := config.LoadRecipe(name)
		if err != nil {
			return nil, err
		}
		for _, quick := range []bool{false, true} {
			runs, err := r.Runs(nil, quick)
			if err != nil {
				return nil, err
			}
			for _, run := range runs {
				all = append(all, run.Config.Codec, run.Config.DownCodec)
			}
		}
	}
	var out []string
	for _, s := range all {
		f, err := compress.Parse(s)
		if err != nil {
			return nil, err
		}
		if s = compress.Spec(f); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out, nil
}
