package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/gradlab/gradlab/experiments/config"
)

// helpPaper says what a recipe is made after, where its settings are from, and what to
// expect of it.
func (e *env) helpPaper(r *config.Recipe) {
	for _, form := range r.Forms() {
		fmt.Fprintf(e.out, "  gradlab run %s --%s\n", r.Name, form)
	}
	p := r.Paper
	fmt.Fprintf(e.out, "\nMade after %s.\n\nIts settings, and where they are from (unverified: not read there):\n", p.Cite)
	t := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, k := range append([]string{"global_batch", "micro_batch"}, keyNames()...) {
		from, ok := p.Sources[k]
		if !ok {
			continue
		}
		value := strings.Join(r.Says(k), " or ")
		if value == "" {
			value = "by variant"
		}
		fmt.Fprintf(t, "  %s\t%s\n  \t  %s\n", k, value, from)
	}
	_ = t.Flush()
	fmt.Fprintln(e.out, "\nPublished results:")
	for _, x := range p.Expect {
		of := ""
		if x.Run != "" {
			of = x.Run + ": "
		}
		fmt.Fprintf(e.out, "  %s%s\n", of, x)
	}
	if len(p.Departs) > 0 {
		fmt.Fprintln(e.out, "\nNot as in the paper:")
		for _, d := range p.Departs {
			fmt.Fprintf(e.out, "  %s\n", d)
		}
	}
}

// keyNames lists the keys of a configuration.
func keyNames() (out []string) {
	for _, k := range config.Keys() {
		out = append(out, k.Name)
	}
	return out
}
