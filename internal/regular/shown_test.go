package regular

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Every character that is shown is a graphic one, on one line, within 4 KiB.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ü → 日本": "plain, ü → 日本", " a\nb\t": `a\nb`, "\x1b[2Jx\x07": `\x1b[2Jx\a`, "a\u202eb\u2028c\u0085d": `a\u202eb\u2028c\u0085d`,
		"\xff\xfe": `\xff\xfe`, "a\u00a0b": "a\u00a0b", "\ufffd": "\ufffd", `C:\x1b`: `C:\x1b`, "\x9b31m": `\x9b31m`, "\x00": `\x00`, "\r": "", "a\rb": `a\rb`,
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) is %q; want %q", text, got, want)
		}
	}
	for r := range rune(unicode.MaxRune + 1) {
		if got := Line("a" + string(r) + "b"); strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) || !utf8.ValidString(got) {
			t.Fatalf("%U is shown as %q", r, got)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1e5), strings.Repeat("日", 1e5), strings.Repeat("\x1b", 1e5), "\xff" + strings.Repeat("é", 4100)} {
		if got := Line("begin " + long + " end"); len(got) > 4<<10 || !strings.HasPrefix(got, "begin ") || !strings.HasSuffix(got, " end") || !strings.Contains(got, "bytes left out") || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q … %q", len(got), got[:20], got[len(got)-20:])
		}
	}
}

// Lines of a text stay lines, each within its bound.
func TestShown(t *testing.T) {
	if got := Shown("a\n\tb\x1b\n"); got != "a\n\tb\\x1b\n" {
		t.Errorf("%q", got)
	}
	got := Shown(strings.Repeat("x", 1e4) + "\n" + strings.Repeat("\x1b", 1e4) + "\nlast\n")
	for line := range strings.Lines(got) {
		if len(line) > 4<<10+1 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if !strings.HasSuffix(got, "\nlast\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
	if got := Shown(strings.Repeat("line\n", 1e5)); len(got) > 64<<10 {
		t.Errorf("%d bytes", len(got))
	}
}
