package regular

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// LongestLine is the largest number of bytes of a line that is shown.
const LongestLine = 4 << 10

// most bounds a text of several lines that is shown.
const most = 64 << 10

// Line returns a text of others as one line of at most LongestLine bytes: control
// characters, those that change the direction of text, and bytes that are no UTF-8 are
// written as escapes. Of a longer text the middle is left out.
func Line(text string) string {
	return shorter(escaped(shorter(strings.TrimSpace(text), LongestLine), ""), LongestLine)
}

// Shown is [Line] for a text of several lines, of at most 64 KiB. It keeps line ends, tabs
// and blanks.
func Shown(text string) string {
	lines := strings.SplitAfter(shorter(text, most), "\n")
	for i, line := range lines {
		body := strings.TrimSuffix(line, "\n")
		lines[i] = shorter(escaped(shorter(body, LongestLine), "\t"), LongestLine) + line[len(body):]
	}
	return strings.Join(lines, "")
}

// clean reports whether a terminal only draws a rune.
func clean(r rune) bool { return unicode.IsGraphic(r) }

// escaped writes all but graphic characters and those of keep as escapes.
func escaped(text, keep string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !clean(r) && !strings.ContainsRune(keep, r) }) < 0 {
		return text
	}
	return string(appendEscaped(nil, []byte(text), keep))
}

// appendEscaped appends text with escapes, of which those above 0x7E are JSON's too.
func appendEscaped(dst, text []byte, keep string) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[0])
		case clean(r) || strings.ContainsRune(keep, r):
			dst = append(dst, text[:n]...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < 0x7F:
			dst = fmt.Appendf(dst, `\x%02x`, r)
		case r > 0xFFFF:
			a, b := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, a, b)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		text = text[n:]
	}
	return dst
}

// shorter leaves out the middle of a text of more than most bytes.
func shorter(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const room = 64 // for the words in the middle
	head, tail := (most-room)*3/4, len(text)-(most-room)/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s … (%d bytes left out) … %s", text[:head], tail-head, text[tail:])
}

// Printer passes on what is written to it, which a terminal then only draws: all but
// graphic characters, line ends and tabs become escapes. JSON stays what it was. It may be
// used by several goroutines.
type Printer struct {
	w    io.Writer
	most int

	mu   sync.Mutex
	part []byte // of a character that has not come whole
	line int    // bytes of the present line
	left int    // of them, how many were left out
}

// NewPrinter makes one that leaves out what a line has above most bytes; 0: nothing.
func NewPrinter(w io.Writer, most int) *Printer { return &Printer{w: w, most: most} }

// Unwrap returns the writer below.
func (p *Printer) Unwrap() io.Writer { return p.w }

// Write implements io.Writer.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.part, b...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	p.part = append([]byte(nil), text[whole:]...)
	_, err := p.w.Write(p.bounded(appendEscaped(nil, text[:whole], "\n\t")))
	return len(b), err
}

// bounded cuts lines.
func (p *Printer) bounded(b []byte) (out []byte) {
	if p.most == 0 {
		return b
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '\n':
			if p.left > 0 {
				out = fmt.Appendf(out, " … (%d bytes left out)", p.left)
			}
			out = append(out, '\n')
			p.line, p.left = 0, 0
		case p.line+n > p.most:
			p.line, p.left = p.most, p.left+n
		default:
			out = append(out, b[:n]...)
			p.line += n
		}
		b = b[n:]
	}
	return out
}

// Flush writes what has come of a character.
func (p *Printer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bounded(appendEscaped(nil, p.part, ""))
	p.part = nil
	if p.left > 0 {
		b = fmt.Appendf(b, " … (%d bytes left out)", p.left)
		p.left = 0
	}
	_, err := p.w.Write(b)
	return err
}
