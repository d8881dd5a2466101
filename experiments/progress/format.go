package progress

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Bytes writes a number of bytes in decimal units: 12.4 MB.
func Bytes(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		if v /= 1000; v < 999.95 {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.1f EB", v/1000)
}

// Seconds writes a duration with two or three digits: 420ms, 1.5ms, 4.2s, 1m06s,
// 2h05m, 3d04h.
func Seconds(s float64) string {
	switch {
	case math.IsNaN(s) || math.Abs(s) > 1e15:
		return "?"
	case s < 0:
		return "-" + Seconds(-s)
	case s == 0:
		return "0s"
	case s < 0.9995:
		d := time.Duration(s * 1e9)
		switch {
		case d < time.Microsecond:
			return d.String()
		case s < 9.95e-6:
			return fmt.Sprintf("%.1fµs", s*1e6)
		case s < 0.9995e-3:
			return fmt.Sprintf("%.0fµs", s*1e6)
		case s < 9.95e-3:
			return fmt.Sprintf("%.1fms", s*1e3)
		}
		return fmt.Sprintf("%.0fms", s*1e3)
	case s < 9.95:
		return fmt.Sprintf("%.1fs", s)
	}
	n := int64(math.Round(s))
	switch {
	case n < 60:
		return fmt.Sprintf("%ds", n)
	case n < 3600:
		return fmt.Sprintf("%dm%02ds", n/60, n%60)
	case n < 86400:
		return fmt.Sprintf("%dh%02dm", n/3600, n/60%60)
	}
	return fmt.Sprintf("%dd%02dh", n/86400, n/3600%24)
}

// Value writes a metric's value with four decimals, one that has grown beyond all bounds with
// four digits, and with its unit: 0.0747, 3.209e+14, 1.2000 ms.
func Value(m sgd.Metric, v float64) string {
	if math.IsNaN(v) || record.Diverged(v) && !math.IsInf(v, 0) {
		return "not finite"
	}
	text := fmt.Sprintf("%.4g", v)
	if math.Abs(v) < 1e5 {
		text = fmt.Sprintf("%.4f", v)
	}
	if m.Unit == "" || m.Unit == sgd.Share {
		return text
	}
	return text + " " + m.Unit
}

// Measured words the values of metrics: accuracy 0.9123, loss 0.3031.
func Measured(metrics []sgd.Metric, v record.Values) string {
	var out []string
	for _, m := range metrics {
		if x, ok := v[m.Name]; ok {
			out = append(out, m.Head()+" "+Value(m, x))
		}
	}
	return strings.Join(out, ", ")
}

// Rate writes how many a second, or a minute where it is slow: 12.1 steps/s.
func Rate(perSecond float64, of string) string {
	switch {
	case math.IsNaN(perSecond) || math.IsInf(perSecond, 0):
		return "? " + of + "/s"
	case perSecond >= 99.95:
		return fmt.Sprintf("%.0f %s/s", perSecond, of)
	case perSecond >= 0.5 || perSecond <= 0:
		return fmt.Sprintf("%.1f %s/s", perSecond, of)
	}
	return fmt.Sprintf("%.1f %s/min", perSecond*60, of)
}

// Spark draws numbers as a line of blocks; what is not finite is a gap.
func Spark(values []float64) string {
	ramp := []rune("▁▂▃▄▅▆▇█")
	gap := func(x float64) bool { return math.IsNaN(x) || record.Diverged(x) }
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range values {
		if !gap(x) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	var b strings.Builder
	for _, x := range values {
		switch {
		case gap(x):
			b.WriteRune(' ')
		case hi > lo && !math.IsInf(hi-lo, 0):
			b.WriteRune(ramp[int((x-lo)/(hi-lo)*float64(len(ramp)-1))])
		default:
			b.WriteRune(ramp[0])
		}
	}
	return b.String()
}
