package external

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/nn"
)

// A command is taken apart at blanks, outside single quotes.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		"  ":                         nil,
		"python3 train.py":           {"python3", "train.py"},
		" a  b\tc\n":                 {"a", "b", "c"},
		"sh -c 'exit 4; echo \"x\"'": {"sh", "-c", `exit 4; echo "x"`},
		"a'b c'd ''":                 {"ab cd", ""},
	} {
		if got, err := words(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// The key's text comes back as it was, and what is wrong in it is told.
func TestProgramText(t *testing.T) {
	const text = `external(command="python3 train.py --name 'a, b'",values=bf16,limit=1m0s)`
	m, err := nn.Models.Parse(text)
	if err != nil || nn.Models.Spec(m) != text {
		t.Errorf("%s, %v", nn.Models.Spec(m), err)
	}
	for text, want := range map[string]string{
		`external(command="sh -c 'exit 4")`:    "a single quote has no other",
		`external(command=" ")`:                "no command",
		`external(command=true,limit=-1s)`:     "limit must be 0 or more",
		`external(command=true,values=fp16)`:   `option "values": want f32 or bf16`,
		`external(command="cat /etc/hostname)`: "a double quote has no other",
	} {
		if _, err := nn.Models.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
