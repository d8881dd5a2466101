package regular

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestLine is the largest number of bytes of a line that is shown, and most is that of a
// text of several lines.
const (
	longestLine = 4 << 10
	most        = 64 << 10
)

// Line returns a text of others as one line of at most 4 KiB: control characters, those
// that change the direction of text, and bytes that are no UTF-8 are written as Go's
// escapes. Of a longer text the middle is left out.
func Line(text string) string { return shown(strings.TrimSpace(text), "", longestLine) }

// Shown is [Line] for a text of several lines, of at most 64 KiB. It keeps line ends, tabs
// and blanks.
func Shown(text string) string {
	if text = shorter(text, most); len(text) <= longestLine {
		return shown(text, "\n\t", longestLine)
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		body := strings.TrimSuffix(line, "\n")
		lines[i] = shown(body, "\t", longestLine) + line[len(body):]
	}
	return strings.Join(lines, "")
}

// shown escapes all but graphic characters and those of keep.
func shown(text, keep string, most int) string {
	clean := func(r rune) bool { return unicode.IsGraphic(r) && r != utf8.RuneError || strings.ContainsRune(keep, r) }
	if text = shorter(text, most); strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if clean(r) || r == utf8.RuneError && n > 1 {
			b.WriteString(text[:n])
		} else {
			quoted := strconv.QuoteToASCII(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[n:]
	}
	return shorter(b.String(), most)
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
