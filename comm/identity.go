package comm

import (
	"fmt"
	"strings"
)

// Field is one named property that all processes of a run must agree on, such
// as a hash of the model's layout, the codec's spec or the seed.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Difference is an identity field that the coordinator and a joining process
// disagree on.
type Difference struct {
	Name        string `json:"name"`
	Coordinator string `json:"coordinator"`
	Joiner      string `json:"joiner"`
}

// MismatchError says that a process was started for another run than the
// coordinator's. Both sides return it.
type MismatchError struct {
	Ranks  []int        `json:"ranks"` // of the joining process
	Fields []Difference `json:"fields"`
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s cannot join, %d field(s) differ:", RankList(e.Ranks), len(e.Fields))
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "\n  %s: %s at the coordinator, %s at the joining process", f.Name, f.Coordinator, f.Joiner)
	}
	return b.String()
}

// RankList words a set of ranks.
func RankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("ranks ")
	for i, r := range ranks {
		if i == 16 {
			fmt.Fprintf(&b, " … (%d in all)", len(ranks))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}

// Differences compares identities by name, in the coordinator's order.
func Differences(coordinator, joiner []Field) []Difference {
	const absent = "(absent)"
	theirs := map[string]string{}
	for _, f := range joiner {
		theirs[f.Name] = f.Value
	}
	var out []Difference
	mine := map[string]bool{}
	for _, f := range coordinator {
		mine[f.Name] = true
		v, ok := theirs[f.Name]
		if !ok {
			v = absent
		}
		if !ok || v != f.Value {
			out = append(out, Difference{f.Name, f.Value, v})
		}
	}
	for _, f := range joiner {
		if !mine[f.Name] {
			out = append(out, Difference{f.Name, absent, f.Value})
		}
	}
	return out
}
