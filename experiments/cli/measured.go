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

// helpMeasured tells what was measured of a device, a cluster, a transport or a node: values,
// how well they are known, and where they are from.
func (e *env) helpMeasured(kind, name string) {
	switch kind {
	case "devices":
		if d, err := hardware.LoadDevice(name); err == nil {
			e.helpDevice(d)
		}
	case "clusters":
		if c, err := hardware.LoadCluster(name); err == nil {
			e.helpCluster(c)
		}
	case "transports":
		if t, err := hardware.LoadTransport(name); err == nil {
			e.helpSpread("What it sets", t.Keys, t.Site)
			fmt.Fprintf(e.out, "\nFrom, where none is named: %s.\n", t.Source)
		}
	case "nodes":
		if n, err := hardware.LoadNode(name); err == nil {
			e.helpSpread("What it sets", n.Keys, 0)
			fmt.Fprintf(e.out, "\nFrom, where none is named: %s.\n", n.Source)
		}
	}
}

func (e *env) helpDevice(d *hardware.Device) {
	fmt.Fprintln(e.out, "\nRates, samples a second, forward and backward:")
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, n := range slices.Sorted(maps.Keys(d.Rates)) {
		r := d.Rates[n]
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %s\t%g\tbatch %d\t%s", n, r.Rate, r.Batch, r.Source), "\t"))
	}
	_ = w.Flush()
	if d.Memory > 0 {
		fmt.Fprintf(e.out, "Its memory moves %.4g GB/s, by its data sheet.\n", d.Memory/1e9)
	}
	fmt.Fprintf(e.out, "\nFrom, where none is named: %s.\n", d.Source)
}

func (e *env) helpCluster(c *hardware.Cluster) {
	fmt.Fprintf(e.out, "  gradlab advise --model resnet50 --cluster '%s,nodes=8'\n", c.Name)
	fmt.Fprintln(e.out, "\nWhat it sets:")
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, a := range c.Assignments() {
		fmt.Fprintf(w, "  %s\t%s\n", a[0], a[1])
	}
	_ = w.Flush()
	for _, line := range slices.Concat(c.Fitted, c.Stated) {
		fmt.Fprintf(e.out, "  %s\n", line)
	}
	if c.Band > 0 {
		fmt.Fprintf(e.out, "Predicted rates on points that were not fitted are off by %.0f %% (rms).\n", 100*c.Band)
	}
	if len(c.Spread) > 0 {
		e.helpSpread("How well they are known", c.Spread, c.Site)
	}
	fmt.Fprintf(e.out, "\nFrom: %s.\n", c.Source)
}

// helpSpread lists parameters with their spreads. Those of a cluster have their middles
// among its keys.
func (e *env) helpSpread(title string, all []hardware.Parameter, site float64) {
	fmt.Fprintf(e.out, "\n%s, with a standard deviation (±: in its unit; ×÷: as a factor):\n", title)
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, p := range all {
		spread := fmt.Sprintf("×÷ %g", p.Times)
		switch {
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
