package text

import (
	"container/heap"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/sgd"
)

// BPE cuts a text into byte pairs (Sennrich et al. 2016, section 3.2; on bytes, as GPT-2 does:
// Radford et al. 2019, section 2.2). A text is cut into pretokens: words with the blank before
// them, numbers, other characters, white space. In each pretoken the pair of neighbours that
// comes first in the list of merges becomes one token, until no pair is in the list.
//
// The vocabulary is that of a folder with vocab.json and merges.txt, or with tokenizer.json;
// or such a file. Of tokenizer.json, byte-level BPE with GPT-2's pretokens can be read. Special
// tokens such as <|endoftext|> stand between documents and end the last one; in a text they are
// characters.
type BPE struct {
	Path string `doc:"folder with vocab.json and merges.txt, or tokenizer.json, or one of these; below --data-dir, or as it is"`
}

var _ = Kinds.Add("bpe", "byte pairs, with a vocabulary of GPT-2's form", BPE{})

// Vocabulary implements Kind: it reads the files.
func (k BPE) Vocabulary(_ Documents, find func(string) (string, error)) (sgd.Vocabulary, error) {
	if k.Path == "" {
		return nil, fmt.Errorf("tokens=bpe: say where the vocabulary is: tokens=bpe(path=…), a folder with vocab.json and merges.txt, or with tokenizer.json")
	}
	path, err := find(k.Path)
	if err != nil {
		return nil, err
	}
	return readPairs(path)
}

// pair is two neighbours; merge is what becomes of them, and when.
type (
	pair  struct{ left, right int32 }
	merge struct{ rank, token int32 }
)

// pairs is a vocabulary of byte pairs.
type pairs struct {
	texts  [][]byte         // of tokens; nil: it stands for nothing
	whole  map[string]int32 // tokens that pretokens are as a whole, whatever the merges; nil: none
	bytes  [256]int32       // tokens of bytes
	merges map[pair]merge
	last   int32 // the token that ends a document; −1: none

	mu   sync.Mutex
	seen map[string][]int32 // pretokens and their tokens
}

// Pretokens that are remembered, and the most bytes of one.
const (
	mostSeen     = 1 << 16
	longSeen     = 64
	longPretoken = 1 << 16 // bytes of a pretoken that are joined at a time
)

func (v *pairs) Len() int           { return len(v.texts) }
func (v *pairs) end() (int32, bool) { return v.last, v.last >= 0 }

func (v *pairs) Decode(dst []byte, token int32) []byte { return append(dst, v.texts[token]...) }

// Encode never fails, as every byte is a token. Of a pretoken of more than 64 KiB as many bytes
// are joined at a time.
func (v *pairs) Encode(dst []int32, text []byte) ([]int32, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(text) > 0 {
		n := pretoken(text[:min(len(text), longPretoken)])
		word := text[:n]
		text = text[n:]
		if known, ok := v.seen[string(word)]; ok {
			dst = append(dst, known...)
			continue
		}
		from := len(dst)
		dst = v.join(dst, word)
		if len(word) <= longSeen && len(v.seen) < mostSeen {
			v.seen[string(word)] = append([]int32(nil), dst[from:]...)
		}
	}
	return dst, nil
}

// joint is a pair of neighbours that can be merged: the place of the left one, and the tokens
// as they were.
type joint struct {
	merge
	at int
	pair
}

// joints is a heap of them: the first merge of the list, and of equal ones the leftmost.
type joints []joint

func (q joints) Len() int { return len(q) }
func (q joints) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}
func (q joints) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *joints) Push(x any)   { *q = append(*q, x.(joint)) }
func (q *joints) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// join appends the tokens of a pretoken.
func (v *pairs) join(dst []int32, word []byte) []int32 {
	if token, ok := v.whole[string(word)]; ok {
		return append(dst, token)
	}
	const gone = -1
	tokens, next, before := make([]int32, len(word)), make([]int, len(word)), make([]int, len(word))
	for i, b := range word {
		tokens[i], next[i], before[i] = v.bytes[b], i+1, i-1
	}
	var queue joints
	offer := func(at int) {
		if at < 0 || next[at] >= len(word) {
			return
		}
		p := pair{tokens[at], tokens[next[at]]}
		if m, ok := v.merges[p]; ok {
			heap.Push(&queue, joint{m, at, p})
		}
	}
	for i := range word {
		offer(i)
	}
	for len(queue) > 0 {
		j := heap.Pop(&queue).(joint)
		if tokens[j.at] != j.left || next[j.at] >= len(word) || tokens[next[j.at]] != j.right {
			continue // one of them is gone
		}
		tokens[j.at], tokens[next[j.at]] = j.token, gone
		if next[j.at] = next[next[j.at]]; next[j.at] < len(word) {
			before[next[j.at]] = j.at
		}
		offer(before[j.at])
		offer(j.at)
	}
	for _, t := range tokens {
		if t != gone {
			dst = append(dst, t)
		}
	}
	return dst
}
