package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Show is a key's value the way people write it, with its unit: 1Gbps where Get
// says 1.25e+08. Set reads both and comes to the same value.
func (c Config) Show(name string) string {
	text := c.Get(name)
	k, ok := findKey(name)
	if !ok {
		return text
	}
	f := reflect.ValueOf(c).Field(k.field)
	if f.Kind() != reflect.Float64 {
		return text
	}
	x := f.Float()
	switch k.tag.Get("unit") {
	case "bandwidth":
		if 0 < x && x < 1000 {
			return text + "B/s" // without a unit so little would be refused
		}
		if strings.HasPrefix(name, "network.") { // others are rates of devices
			return exactly(x, scaled(8*x)+"bps", text, parseBandwidth)
		}
		return exactly(x, scaled(x)+"B/s", text, parseBandwidth)
	case "flops":
		return exactly(x, scaled(x)+"FLOPS", text, func(s string) (float64, error) { return parseScaled(s, "FLOPS") })
	}
	return text
}

// exactly is text if it is read as x, else the plain number; a value below a
// thousand needs no prefix to be read.
func exactly(x float64, text, plain string, parse func(string) (float64, error)) string {
	if y, err := parse(text); err != nil || y != x || x < 1000 {
		return plain
	}
	return text
}

// scaled writes a number with the prefix that leaves one to three digits before
// the point, or as many as it takes.
func scaled(x float64) string {
	prefix := ""
	for _, p := range "kMGTP" {
		if math.Abs(x) < 1000 {
			break
		}
		x, prefix = x/1000, string(p)
	}
	return strconv.FormatFloat(x, 'g', 12, 64) + prefix
}

// ParseBytes reads a length with a decimal prefix: 4096, 64MB, 1.5GB.
func ParseBytes(text string) (int, error) {
	x, err := parseScaled(text, "B")
	if err != nil || x < 0 || x > 1<<50 {
		return 0, fmt.Errorf("want bytes such as 4096 or 64MB, not %q", text)
	}
	return int(x), nil
}
