package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Text on every ground has the contrast that WCAG 2 asks of it (1.4.3): 4.5 to 1, in the
// light, in the dark and in print.
func TestContrast(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile(`:root\{([^}]*)\}`).FindAllStringSubmatch(styleText, -1)
	if len(blocks) < 2 {
		t.Fatalf("%d sets of colours", len(blocks))
	}
	for i, b := range blocks {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+):#([0-9a-f]+)`).FindAllStringSubmatch(b[1], -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, text := range []string{"ink", "dim", "accent", "good", "bad", "fig-text", "fig-tick", "fig-aim"} {
			for _, ground := range []string{"paper", "card", "soft"} {
				a, b := colours[text], colours[ground]
				if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < 4.5 {
					t.Errorf("set %d: %s on %s has a contrast of %.2f", i, text, ground, c)
				}
			}
		}
	}
}

// luminance is the relative luminance of sRGB (WCAG 2).
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = strings.Repeat(hex[:1], 2) + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:], 2)
	}
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(c uint64) float64 {
		x := float64(c&255) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(v>>16) + 0.7152*linear(v>>8) + 0.0722*linear(v)
}
