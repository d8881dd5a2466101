package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/portable"
)

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

// parseScaled reads a number with an optional SI prefix and one of the units.
func parseScaled(text string, units ...string) (float64, error) {
	s := text
	for _, u := range units {
		if len(s) > len(u) && strings.EqualFold(s[len(s)-len(u):], u) {
			s = s[:len(s)-len(u)]
			break
		}
	}
	s = strings.TrimSpace(s)
	scale := 1.0
	if s != "" {
		if i := strings.IndexByte("kMGTP", s[len(s)-1]); i >= 0 {
			scale = portable.Pow(1000, float64(i+1))
			s = strings.TrimSpace(s[:len(s)-1])
		} else if s[len(s)-1] == 'K' {
			scale, s = 1000, strings.TrimSpace(s[:len(s)-1])
		}
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) {
		return 0, fmt.Errorf("want a number such as 1e11 or 100G%s, not %q", units[0], text)
	}
	return x * scale, nil
}

// bareBandwidth is the least bandwidth, in bytes per second, that may be written
// without a unit.
const bareBandwidth = 1000

// parseBandwidth reads bits per second (1Gbps, 10 Gb/s, 100Mbit/s) or bytes per
// second (125MB/s, a bare number) and returns bytes per second.
func parseBandwidth(text string) (float64, error) {
	bad := fmt.Errorf("want bits per second such as 1Gbps, or bytes per second such as 125MB/s or 1.25e8, not %q", text)
	for _, u := range []string{"bps", "bit/s", "b/s", "B/s"} {
		if !strings.HasSuffix(text, u) {
			continue
		}
		x, err := parseScaled(strings.TrimSuffix(text, u), "")
		if err != nil {
			return 0, bad
		}
		if u == "B/s" {
			return x, nil
		}
		return x / 8, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) {
		return 0, bad
	}
	if 0 < x && x < bareBandwidth { // no link is that slow; folders keep more, in full
		return 0, fmt.Errorf("%s means %s bytes a second; write the unit, such as %sGbps, %sMB/s or %sB/s", text, text, text, text, text)
	}
	return x, nil
}

// bandwidthText words bytes a second without loss.
func bandwidthText(rate float64) string {
	for _, u := range []struct {
		word string
		size float64
	}{{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}} {
		text := strconv.FormatFloat(rate/u.size, 'g', -1, 64)
		if back, err := parseBandwidth(text + u.word); rate >= u.size && err == nil && back == rate {
			return text + u.word
		}
	}
	return strconv.FormatFloat(rate, 'g', -1, 64) + "B/s"
}

// listed joins words as prose does.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
