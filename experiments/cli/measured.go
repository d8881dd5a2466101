package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// helpMeasured prints what was measured of a device, a cluster, a transport or a node: values,
// how well they are known, and where they are from. kind is its plural.
func (e *env) helpMeasured(kind, name string) {
	kind = strings.TrimSuffix(kind, "s")
	if !slices.Contains(hardware.Kinds(), kind) {
		return
	}
	s, err := hardware.Load(kind, name)
	if err != nil {
		return
	}
	if kind == hardware.Cluster {
		fmt.Fprintf(e.out, "  gradlab advise timing=resnet50 workers=64 cluster=%s\n", s.Name)
	}
	if len(s.Rates) > 0 {
		fmt.Fprintln(e.out, "\nRates, samples a second, forward and backward:")
		w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
		for _, n := range slices.Sorted(maps.Keys(s.Rates)) {
			r := s.Rates[n]
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %s\t%g\tbatch %d\t%s", n, r.Rate, r.Batch, r.Source), "\t"))
		}
		_ = w.Flush()
	}
	if s.Memory > 0 {
		fmt.Fprintf(e.out, "Its memory moves %.4g GB/s, by its data sheet.\n", s.Memory/1e9)
	}
	if len(s.Keys) > 0 {
		e.helpKeys(s.Keys, s.Site)
	}
	for _, line := range slices.Concat(s.Fitted, s.Stated) {
		fmt.Fprintf(e.out, "  %s\n", line)
	}
	if s.Band > 0 {
		fmt.Fprintf(e.out, "Predicted rates on points that were not fitted are off by %.0f %% (rms).\n", 100*s.Band)
	}
	fmt.Fprintf(e.out, "\nFrom, where none is named: %s.\n", s.Source)
}

// helpKeys lists the keys that a sheet sets, with their spreads. One without a value is
// known so well whatever sets it.
func (e *env) helpKeys(all []hardware.Parameter, site float64) {
	fmt.Fprintln(e.out, "\nWhat it sets, with a standard deviation (±: in its unit; ×÷: as a factor):")
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, p := range all {
		spread := fmt.Sprintf("×÷ %g", p.Times)
		switch {
		case !p.Varies():
			spread = ""
		case p.Plus > 0:
			spread = fmt.Sprintf("± %.3g", p.Plus)
		case p.Times == 1:
			spread = "taken as exact"
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %s\t%s\t%s\t%s", p.Key, p.Value, spread, p.Source), "\t"))
	}
	_ = w.Flush()
	if site > 0 {
		fmt.Fprintf(e.out, "  and ×÷ %.3g on the time of a step, between sites of equal hardware\n", math.Exp(site))
	}
}
