package text

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// Pretokens are those of GPT-2's pattern, as Python's module regex finds them.
func TestPretokens(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/encoded.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Text      string
		Pretokens []string
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		var got []string
		for rest := []byte(c.Text); len(rest) > 0; {
			n := pretoken(rest)
			got, rest = append(got, string(rest[:n])), rest[n:]
		}
		if !slices.Equal(got, c.Pretokens) {
			t.Errorf("%q: %q, want %q", c.Text, got, c.Pretokens)
		}
	}
}
