package ask

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/progress"
)

// Parts of a parameter's variance that points took away.
const (
	toldWell = 0.5
	toldAny  = 0.05
)

// muchOff is how far a fitted point may be missed before its range is not to be trusted.
const muchOff = 0.1

// findings says in sentences what the points told, and what not to trust.
func (c *Calibration) findings() (out []string) {
	var well, little, none []string
	for _, p := range c.Parameters {
		value := fmt.Sprintf("%s %s (90 %%: %s to %s)", p.Key, shown(p.Key, p.After), shown(p.Key, p.Low), shown(p.Key, p.High))
		switch {
		case p.Told >= toldWell:
			well = append(well, value)
		case p.Told >= toldAny:
			little = append(little, value)
		default:
			none = append(none, p.Key)
		}
	}
	say := func(what string, list []string) {
		if len(list) > 0 {
			out = append(out, what+strings.Join(list, ", "))
		}
	}
	say("learned: ", well)
	say("learned a little, still mostly what was known before: ", little)
	say("learned nothing, so do not trust these more than before: ", none)
	if slices.ContainsFunc(c.Points, func(p CalibrationPoint) bool { return p.bytes > 0 }) {
		out = append(out, fmt.Sprintf("all-reduces are taken for topology=%s; say another with topology=…", c.base.Topology))
	}
	if slices.ContainsFunc(c.free, free.isLink) {
		out = append(out, "network.bandwidth or network.latency was not given, so it was fitted from anything: give both, and the rest is known better")
	}
	if p, at := c.worst(); p != nil {
		off := p.Predicted/p.Measured - 1
		line := fmt.Sprintf("the fitted point missed most is %d, %s: %+.1f %%", at+1, p.What, 100*off)
		if math.Abs(off) > muchOff {
			line += "; do not trust predictions near it"
		}
		out = append(out, line)
	}
	if c.LeftOut > 0 {
		line := fmt.Sprintf("noise of a point %.1f %%; each fitted point predicted from the others is missed by %.1f %% (rms, to first order)", 100*c.Noise, 100*c.LeftOut)
		if p, at := c.mostLeftOut(); p != nil && c.LeftOut > muchOff {
			line += fmt.Sprintf(", most at point %d (%+.0f %%): few points tell of what it needs", at+1, 100*(p.LeftOut/p.Measured-1))
		}
		out = append(out, line)
	} else {
		out = append(out, fmt.Sprintf("noise of a point %.1f %%, as assumed: each fitted point alone tells of a parameter, and the others do not predict it", 100*c.Noise))
	}
	if h := c.Held; h.Points > 0 {
		return append(out, fmt.Sprintf("held out: %d points, missed by %.1f %% (rms), bias %+.1f %%; %d lie in their 90 %% interval", h.Points, 100*h.RMS, 100*h.Bias, h.Covered))
	}
	return append(out, "held out: none, so nothing judges the fit; --fit says which points are fitted, and the others judge")
}

// worst returns the fitted point whose prediction is furthest off, and its index.
func (c *Calibration) worst() (*CalibrationPoint, int) {
	return c.furthest(func(p *CalibrationPoint) float64 { return p.Predicted })
}

// mostLeftOut returns the fitted point that the others predict worst, and its index.
func (c *Calibration) mostLeftOut() (*CalibrationPoint, int) {
	return c.furthest(func(p *CalibrationPoint) float64 { return p.LeftOut })
}

func (c *Calibration) furthest(of func(*CalibrationPoint) float64) (far *CalibrationPoint, at int) {
	most := -1.0
	for i := range c.Points {
		p := &c.Points[i]
		if x := of(p); p.Fitted && x > 0 {
			if off := math.Abs(math.Log(x / p.Measured)); off > most {
				far, at, most = p, i, off
			}
		}
	}
	return far, at
}

// shown is the value of a key to three digits, the way people write it: links between
// hosts in bits a second, rates of devices in bytes and operations a second.
func shown(key, text string) string {
	if d, err := time.ParseDuration(text); err == nil {
		return progress.Seconds(d.Seconds())
	}
	var x float64
	var unit string
	if n, _ := fmt.Sscanf(text, "%g%s", &x, &unit); n == 0 {
		return text
	}
	switch {
	case unit == "B/s" && strings.HasPrefix(key, "network."):
		return prefixed(8*x, "b/s")
	case unit == "B/s":
		return prefixed(x, "B/s")
	case strings.HasPrefix(key, "device.flops"):
		return prefixed(x, "FLOP/s")
	}
	return fmt.Sprintf("%.3g%s", x, unit)
}

// prefixed is a number with the decimal prefix that leaves one to three digits before the
// point.
func prefixed(x float64, unit string) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T", "P"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, prefix = x/1000, p
	}
	return fmt.Sprintf("%.3g %s%s", x, prefix, unit)
}
