package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// codecTime is what key device.codec says: how long codecs take on the virtual
// cluster.
type codecTime struct {
	rate  float64 // bytes of gradient a second, whatever the codec; 0: see table
	table string  // by name, or a file; measured, here; free: nothing takes any time
	times float64 // so many times as fast as the table's core; 0: as the device is beside it
}

const (
	codecsMeasured = "measured" // by the table that comes with gradlab
	codecsHere     = "here"     // on this machine
)

// CodecsFree is the value of key device.codec at which codecs take no time.
const CodecsFree = "free"

// parseCodecTime reads free, measured, here, a table's name or file, any of them
// behind a factor as in 40xmeasured, or a rate.
func parseCodecTime(text string) (codecTime, error) {
	text = strings.TrimSpace(text)
	if text == CodecsFree {
		return codecTime{table: CodecsFree}, nil
	}
	if rate, err := parseBandwidth(text); err == nil && rate >= 0 && !math.IsInf(rate, 0) {
		if rate == 0 {
			return codecTime{table: CodecsFree}, nil
		}
		return codecTime{rate: rate}, nil
	}
	c := codecTime{table: text}
	if factor, rest, ok := strings.Cut(text, "x"); ok {
		if times, err := strconv.ParseFloat(factor, 64); err == nil {
			if !(times > 0) || math.IsInf(times, 0) {
				return c, fmt.Errorf("want a factor of more than 0 before the x, not %s", factor)
			}
			c.times, c.table = times, rest
		}
	}
	if c.table == codecsMeasured || c.table == codecsHere || strings.HasSuffix(c.table, ".yaml") || slices.Contains(hardware.Codecs(), c.table) {
		return c, nil
	}
	return c, fmt.Errorf("want measured, free, a rate such as 1GB/s, here (measured on this machine), a table (%s) or the file of one (.yaml), or so many times a table's speed such as 40xmeasured; not %q",
		strings.Join(hardware.Codecs(), ", "), text)
}

// String is the text parseCodecTime reads.
func (c codecTime) String() string {
	switch {
	case c.rate > 0:
		return bandwidthText(c.rate)
	case c.times > 0:
		return strconv.FormatFloat(c.times, 'g', -1, 64) + "x" + c.table
	}
	return c.table
}

// CodecPrices says how long codecs take on the devices of a configuration.
type CodecPrices struct {
	of   *Resolved
	rate func(timing.Coding) time.Duration // one rate for all; nil: see book
	book *coding.Book                      // nil: nothing takes any time, unless there is a rate
}

// CodecPrices makes what key device.codec says of the virtual cluster. On real
// clocks nothing is billed.
func (r *Resolved) CodecPrices(at Places) (*CodecPrices, error) {
	p := &CodecPrices{of: r}
	t := value[codecTime](r, "device.codec")
	switch {
	case !r.config.OnNet().Virtual || t.table == CodecsFree:
		return p, nil
	case t.rate > 0:
		p.rate = timing.FlatRate(t.rate)
		return p, nil
	}
	var tables []*hardware.CodecTable
	if at.Rates != nil && sameTable(at.Rates.Key, t) {
		tables = append(tables, at.Rates.Tables...)
	}
	if t.table != codecsHere {
		name := t.table
		if name == codecsMeasured {
			name = coding.Default
		}
		table, err := coding.Load(name)
		if err != nil && len(tables) == 0 { // a file may be gone that a run was billed by
			return nil, fmt.Errorf("key \"device.codec\": %w", err)
		}
		if err == nil {
			tables = append(tables, table)
		}
	}
	speed, _ := codecSpeed(r.config, t)
	p.book = coding.NewBook(speed, at.Codecs, tables...)
	return p, nil
}

// sameTable says whether the rates of a record are those of a key, at any factor.
func sameTable(recorded string, t codecTime) bool {
	r, err := parseCodecTime(recorded)
	return err == nil && r.rate == t.rate && r.table == t.table
}

// Price is the virtual time of a use of a codec.
func (p *CodecPrices) Price(c timing.Coding) time.Duration {
	switch {
	case p.rate != nil:
		return p.rate(c)
	case p.book != nil:
		return p.book.Price(c)
	}
	return 0
}

// timing is Price, or nil where nothing is billed.
func (p *CodecPrices) timing() func(timing.Coding) time.Duration {
	if p.rate == nil && p.book == nil {
		return nil
	}
	return p.Price
}

// Err is the first use that could not be priced.
func (p *CodecPrices) Err() error {
	if p.book == nil {
		return nil
	}
	if err := p.book.Err(); err != nil {
		return fmt.Errorf("key \"device.codec\": %w", err)
	}
	return nil
}

// Record is the rates that were asked for; nil: none.
func (p *CodecPrices) Record() *coding.Record {
	if used := p.book.Used(); len(used) > 0 {
		return &coding.Record{Key: p.of.config.DeviceCodec, Tables: used}
	}
	return nil
}

// String words what codecs were billed at, for readers of results; "" where the
// clock is a real one, or nothing was to be billed.
func (p *CodecPrices) String() string { return p.of.codecsBilled(p.book.Used()) }

// Misfit words which codecs were billed by the table that comes with gradlab, and are others
// in this build, with what to type; "": none. It measures them, where a meter is there.
func (p *CodecPrices) Misfit() string { return p.book.Misfit() }

// codecSpeed is how fast the device codes beside the core of a table, and where
// that is from.
func codecSpeed(c Config, t codecTime) (coding.Speed, string) {
	if t.times > 0 {
		return coding.Speed{Times: t.times}, "as stated"
	}
	if c.Device != "none" {
		if d, err := hardware.Load(hardware.Device, c.Device); err == nil && d.Memory > 0 {
			return coding.Speed{Memory: d.Memory}, fmt.Sprintf("memory of %s over the core's", bandwidthText(d.Memory))
		}
	}
	return coding.Speed{FLOPS: c.DeviceFLOPS}, fmt.Sprintf("%.4g GFLOP/s over the core's", c.DeviceFLOPS/1e9)
}

// CodecsStated says whether device.codec names a table of a device's own rates, beside which
// rates measured on a core here would be of another kind.
func (r *Resolved) CodecsStated() bool {
	t := value[codecTime](r, "device.codec")
	if t.rate > 0 || t.table == CodecsFree || t.table == codecsHere || t.table == codecsMeasured {
		return false
	}
	table, err := coding.Load(t.table)
	return err == nil && table.FLOPS == 0
}

// codecsBilled words how codecs are billed by the tables used; "" on a real clock.
func (r *Resolved) codecsBilled(used []*hardware.CodecTable) string {
	t := value[codecTime](r, "device.codec")
	switch {
	case !r.config.OnNet().Virtual:
		return ""
	case t.table == CodecsFree:
		return "codecs were not billed (device.codec=free)"
	case t.rate > 0:
		return fmt.Sprintf("codecs were billed at %s of gradient, whatever the codec (device.codec)", t)
	}
	speed, why := codecSpeed(r.config, t)
	var parts []string
	for _, u := range used {
		switch times := speed.Over(u); {
		case u.Build != "":
			spread := 1.0
			for _, r := range u.Rates {
				spread = max(spread, r.Spread)
			}
			parts = append(parts, fmt.Sprintf("a core of %s (%s, on %s, load %.2g, spread %.2g), devices %.3g times as fast (%s)", u.Processor, u.Name, u.Date, u.Load, spread, times, why))
		case u.FLOPS > 0:
			parts = append(parts, fmt.Sprintf("a core of %s (%s), devices %.3g times as fast (%s)", u.Processor, u.Name, times, why))
		case times == 1:
			parts = append(parts, fmt.Sprintf("%s (%s)", u.Processor, u.Name))
		default:
			parts = append(parts, fmt.Sprintf("%s (%s), %.3g times as fast", u.Processor, u.Name, times))
		}
	}
	if parts == nil {
		return "" // nothing was encoded
	}
	return "codecs were billed at rates measured on " + strings.Join(parts, "; and on ")
}
