package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gradlab/gradlab/internal/regular"
)

// Names of the files that vocabularies are kept in.
const (
	vocabFile     = "vocab.json"
	mergesFile    = "merges.txt"
	tokenizerFile = "tokenizer.json"
)

const mostVocabularyBytes = 256 << 20 // of a file

// ends are tokens that end a document, by the vocabularies that have them.
var ends = []string{"<|endoftext|>", "<|end_of_text|>", "</s>"}

// tokenizer is the parts of a tokenizer.json that are read.
type tokenizer struct {
	Model struct {
		Type         string            `json:"type"`
		Vocab        map[string]int32  `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
		IgnoreMerges bool              `json:"ignore_merges"`
		Dropout      *float64          `json:"dropout"`
		Fallback     bool              `json:"byte_fallback"`
		Prefix       string            `json:"continuing_subword_prefix"`
		Suffix       string            `json:"end_of_word_suffix"`
	} `json:"model"`
	Normalizer   *step `json:"normalizer"`
	PreTokenizer *step `json:"pre_tokenizer"`
	Added        []struct {
		ID      int32  `json:"id"`
		Content string `json:"content"`
	} `json:"added_tokens"`
}

// step is one of those by which a text is prepared.
type step struct {
	Type      string `json:"type"`
	Prefix    bool   `json:"add_prefix_space"`
	UseRegex  *bool  `json:"use_regex"`
	Steps     []step `json:"pretokenizers"`
	Behaviour string `json:"behavior"`
	Pattern   struct{ Regex string }
}

// gpt2Pattern is GPT-2's pattern of pretokens as tokenizer.json has it.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// readPairs reads a vocabulary from a folder, or a file of one.
func readPairs(path string) (*pairs, error) {
	dir := path
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.IsDir() {
		dir = filepath.Dir(path)
		if base := filepath.Base(path); base != vocabFile && base != mergesFile {
			return readTokenizer(path)
		}
	}
	both, err := readGPT2(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return both, err
	}
	one, err := readTokenizer(filepath.Join(dir, tokenizerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there are neither %s and %s nor %s", dir, vocabFile, mergesFile, tokenizerFile)
	}
	return one, err
}

// readGPT2 reads vocab.json and merges.txt.
func readGPT2(dir string) (*pairs, error) {
	path := filepath.Join(dir, vocabFile)
	b, err := regular.ReadFile(path, mostVocabularyBytes)
	if err != nil {
		return nil, err
	}
	var vocab map[string]int32
	if err := json.Unmarshal(b, &vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list := filepath.Join(dir, mergesFile)
	if b, err = regular.ReadFile(list, mostVocabularyBytes); err != nil {
		return nil, err
	}
	var lines [][2]string
	n := 0
	for text := range bytes.Lines(b) {
		n++
		words := strings.Fields(string(text))
		if len(words) == 0 || n == 1 && strings.HasPrefix(words[0], "#version") {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("%s:%d: %d words; want the two tokens of a pair", list, n, len(words))
		}
		lines = append(lines, [2]string(words))
	}
	v, err := newPairs(vocab, lines, nil)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", path, mergesFile, err)
	}
	return v, nil
}

// readTokenizer reads a tokenizer.json of byte-level BPE.
func readTokenizer(path string) (*pairs, error) {
	b, err := regular.ReadFile(path, mostVocabularyBytes)
	if err != nil {
		return nil, err
	}
	var t tokenizer
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("%s: %w; byte-level BPE with GPT-2's pretokens can be read", path, err)
	}
	var list [][2]string
	for i, raw := range t.Model.Merges {
		var two []string
		var one string
		if json.Unmarshal(raw, &one) == nil {
			two = strings.Split(one, " ")
		} else if err := json.Unmarshal(raw, &two); err != nil {
			return nil, fmt.Errorf("%s: merge %d: %w", path, i, err)
		}
		if len(two) != 2 {
			return nil, fmt.Errorf("%s: merge %d has %d parts; want 2", path, i, len(two))
		}
		list = append(list, [2]string(two))
	}
	added := map[string]int32{}
	for _, a := range t.Added {
		added[a.Content] = a.ID
	}
	v, err := newPairs(t.Model.Vocab, list, added)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if t.Model.IgnoreMerges {
		v.whole = map[string]int32{}
		for token, text := range v.texts {
			v.whole[string(text)] = int32(token)
		}
	}
	return v, nil
}

// check refuses what is no byte-level BPE with GPT-2's pretokens, and says what it is.
func (t *tokenizer) check() error {
	m := t.Model
	switch {
	case m.Type != "" && m.Type != "BPE":
		return fmt.Errorf("its model is of type %q", m.Type)
	case m.Vocab == nil:
		return fmt.Errorf("it has no vocabulary of a model")
	case m.Fallback:
		return fmt.Errorf("its model is BPE on characters (byte_fallback)")
	case m.Prefix != "" || m.Suffix != "":
		return fmt.Errorf("its model has affixes of words (%q, %q)", m.Prefix, m.Suffix)
	case m.Dropout != nil && *m.Dropout > 0:
		return fmt.Errorf("its model leaves out merges by chance (dropout %g)", *m.Dropout)
	case t.Normalizer != nil:
		return fmt.Errorf("it changes texts first (normalizer %q)", t.Normalizer.Type)
	case t.PreTokenizer == nil:
		return fmt.Errorf("it does not cut texts into pretokens (pre_tokenizer null)")
	}
	steps := []step{*t.PreTokenizer}
	if t.PreTokenizer.Type == "Sequence" {
		steps = t.PreTokenizer.Steps
	}
	cut, level := 0, false
	for _, s := range steps {
		switch {
		case s.Type == "ByteLevel" && s.Prefix:
			return fmt.Errorf("it puts a blank before a text (add_prefix_space)")
		case s.Type == "ByteLevel":
			level = true
			if s.UseRegex == nil || *s.UseRegex {
				cut++
			}
		case s.Type == "Split" && s.Pattern.Regex == gpt2Pattern && s.Behaviour == "Isolated":
			cut++
		case s.Type == "Split":
			return fmt.Errorf("it cuts texts by another pattern, %q", s.Pattern.Regex)
		default:
			return fmt.Errorf("it cuts texts by %q", s.Type)
		}
	}
	if !level || cut != 1 {
		return fmt.Errorf("it cuts texts into pretokens %d times, on bytes: %v", cut, level)
	}
	return nil
}

// newPairs makes a vocabulary of tokens, written with a character for each byte, merges in
// their order, and special tokens, as they are.
func newPairs(vocab map[string]int32, list [][2]string, added map[string]int32) (*pairs, error) {
	v := &pairs{merges: make(map[pair]merge, len(list)), last: -1, seen: map[string][]int32{}}
	most := int32(-1)
	for _, of := range []map[string]int32{vocab, added} {
		for text, id := range of {
			if id < 0 || id >= MostTokens {
				return nil, fmt.Errorf("token %q has number %d; want 0 to %d", text, id, MostTokens-1)
			}
			most = max(most, id)
		}
	}
	v.texts = make([][]byte, most+1)
	for i := range v.bytes {
		v.bytes[i] = -1
	}
	for text, id := range vocab {
		if _, is := added[text]; is {
			continue
		}
		b, ok := unspelled(text)
		if !ok {
			continue // a special token
		}
		if v.texts[id] != nil {
			return nil, fmt.Errorf("two tokens have number %d", id)
		}
		if v.texts[id] = b; len(b) == 1 {
			v.bytes[b[0]] = id
		}
	}
	for b, id := range v.bytes {
		if id < 0 {
			return nil, fmt.Errorf("there is no token of byte %#x, so it is no byte-level vocabulary", b)
		}
	}
	for i, m := range list {
		left, ok := vocab[m[0]]
		right, too := vocab[m[1]]
		token, both := vocab[m[0]+m[1]]
		if !ok || !too || !both {
			return nil, fmt.Errorf("merge %d, %q with %q: these or what they make is no token", i, m[0], m[1])
		}
		if _, twice := v.merges[pair{left, right}]; !twice {
			v.merges[pair{left, right}] = merge{int32(i), token}
		}
	}
	for _, name := range ends {
		for _, of := range []map[string]int32{added, vocab} {
			if id, ok := of[name]; ok && v.last < 0 {
				v.last, v.texts[id] = id, nil
			}
		}
	}
	return v, nil
}

// spelled is the character that stands for a byte in files: itself where it can be seen, and
// else one from U+0100 on.
var spelled = func() (out [256]rune) {
	n := rune(256)
	for b := range out {
		switch {
		case b >= '!' && b <= '~', b >= 0xa1 && b <= 0xac, b >= 0xae:
			out[b] = rune(b)
		default:
			out[b] = n
			n++
		}
	}
	return out
}()

var byteOf = func() map[rune]byte {
	out := map[rune]byte{}
	for b, r := range spelled {
		out[r] = byte(b)
	}
	return out
}()

// unspelled is the bytes that a token's characters stand for.
func unspelled(text string) (b []byte, ok bool) {
	for _, r := range text {
		c, is := byteOf[r]
		if !is {
			return nil, false
		}
		b = append(b, c)
	}
	return b, len(b) > 0
}
