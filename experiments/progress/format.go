package progress

import (
	"fmt"
	"math"
	"strconv"
	"time"

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

// Loss writes a loss with four decimals, and one that has grown beyond all bounds with
// four digits: 0.0747, 3.209e+14.
func Loss(v float64) string {
	if record.Diverged(v) && !math.IsInf(v, 0) {
		return "not finite"
	}
	if math.Abs(v) < 1e5 {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.4g", v)
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
