package regular

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Every character that is shown is a graphic one, on one line, within 4 KiB.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ü → 日本": "plain, ü → 日本", " a\nb\t": `a\nb`, "\x1b[2Jx\x07": `\x1b[2Jx\x07`, "a\u202eb\u2028c\u0085d": `a\u202eb\u2028c\u0085d`,
		"\xff\xfe": `\xff\xfe`, "a\u00a0b": "a\u00a0b", "\ufffd": "\ufffd", `C:\x1b`: `C:\x1b`, "\x9b31m": `\x9b31m`, "\u009b31m\x7f": `\u009b31m\u007f`, "\U000e0001": `\udb40\udc01`, "\x00": `\x00`, "\r": "", "a\rb": `a\rb`,
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) is %q; want %q", text, got, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r += 1 + 36*(r/0x3100)/max(1, r/0x3100) {
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

// What a printer is given comes out on a terminal as text, however it is cut into writes;
// JSON is what it was.
func TestPrinter(t *testing.T) {
	const text = "a\x1b[31mü日\u202e\n\t\U000e0001\xff\u009bZ\xe6"
	for size := 1; size <= len(text); size++ {
		var b strings.Builder
		p := NewPrinter(&b, 0)
		for rest := text; rest != ""; {
			n, err := p.Write([]byte(rest[:min(size, len(rest))]))
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := p.Flush(); err != nil || b.String() != `a\x1b[31mü日\u202e`+"\n\t"+`\udb40\udc01\xff\u009bZ\xe6` {
			t.Errorf("in writes of %d: %q, %v", size, b.String(), err)
		}
	}
	want := map[string]string{"a": "\x1b\u009b\x7f\u202e\U000e0001\u2028"}
	var b strings.Builder
	if err := json.NewEncoder(NewPrinter(&b, 0)).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["a"] != want["a"] || strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
		t.Errorf("%q is read as %q, %v", b.String(), got, err)
	}
	b.Reset()
	p := NewPrinter(&b, 10)
	for _, s := range []string{"0123456", "789abc\nshort\n", "ééééééé"} {
		if _, err := p.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil || b.String() != "0123456789 … (3 bytes left out)\nshort\nééééé … (4 bytes left out)" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
