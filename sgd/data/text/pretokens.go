package text

import (
	"unicode"
	"unicode/utf8"
)

// Classes of characters that pretokens are made of.
const (
	blank  = iota // white space
	letter        // of Unicode's category L
	digit         // of category N
	other
)

// classOf is the class of the character that a text begins with, and how many bytes it has.
// A byte that is no UTF-8 is a character of class other.
func classOf(text []byte) (class, size int) {
	r, size := rune(text[0]), 1
	if r >= utf8.RuneSelf {
		r, size = utf8.DecodeRune(text)
	}
	switch {
	case unicode.IsSpace(r):
		return blank, size
	case unicode.IsLetter(r):
		return letter, size
	case unicode.IsNumber(r):
		return digit, size
	}
	return other, size
}

// contractions are the ends of English words that are pretokens of their own.
var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

// pretoken is how many bytes of a text, which is not empty, are its first pretoken. That is the
// pattern by which GPT-2 cuts texts before it joins bytes (Radford et al. 2019, encoder.py):
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// So a run of white space leaves its last character to what follows it, which a word takes
// if that is a blank.
func pretoken(text []byte) int {
	for _, c := range contractions {
		if len(text) >= len(c) && string(text[:len(c)]) == c {
			return len(c)
		}
	}
	at := 0
	if text[0] == ' ' && len(text) > 1 {
		at = 1
	}
	class, n := classOf(text[at:])
	if class != blank {
		for at += n; at < len(text); at += n {
			var next int
			if next, n = classOf(text[at:]); next != class {
				break
			}
		}
		return at
	}
	last := 0 // where the last character of the run begins
	for at = 0; at < len(text); at += n {
		if class, n = classOf(text[at:]); class != blank {
			if last > 0 {
				return last
			}
			return at
		}
		last = at
	}
	return at
}
