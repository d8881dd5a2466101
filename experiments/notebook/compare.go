package notebook

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Numbers of outputs may differ by a share of their size, or by a little: other
// processors round elsewhere, and learning amplifies that.
const (
	mayDiffer  = 0.15
	mayDifferA = 0.03
)

// Compare tells in what the outputs of two runs of a notebook differ, a line
// each. Words must be the same and numbers near; of pictures, and of cells that
// are Changing, only the kind of what they show is compared.
func Compare(was, is *Notebook) (differences []string) {
	if len(was.Cells) != len(is.Cells) {
		return []string{fmt.Sprintf("%d cells, now %d", len(was.Cells), len(is.Cells))}
	}
	for i := range was.Cells {
		a, b := was.Cells[i], is.Cells[i]
		if a.Source != b.Source {
			differences = append(differences, fmt.Sprintf("cell %d: another source", i+1))
			continue
		}
		if len(a.Outputs) != len(b.Outputs) {
			differences = append(differences, fmt.Sprintf("cell %d: %d outputs, now %d", i+1, len(a.Outputs), len(b.Outputs)))
			continue
		}
		for k := range a.Outputs {
			x, y := a.Outputs[k], b.Outputs[k]
			if x.Type != y.Type || !slices.Equal(x.Kinds(), y.Kinds()) {
				differences = append(differences, fmt.Sprintf("cell %d: %s %v, now %s %v", i+1, x.Type, x.Kinds(), y.Type, y.Kinds()))
			} else if d := differs(x.text(), y.text()); d != "" && !b.Changing() {
				differences = append(differences, fmt.Sprintf("cell %d: %s", i+1, d))
			}
		}
	}
	return differences
}

// Changing is true for cells with this tag: what they show follows parts of
// gradlab that change for good reasons, such as studies.
func (c *Cell) Changing() bool {
	var m struct{ Tags []string }
	return len(c.Metadata) > 0 && json.Unmarshal(c.Metadata, &m) == nil && slices.Contains(m.Tags, "changing")
}

// tokens of a text: numbers, words and signs. Blanks and rules between columns
// follow the widths of numbers, and do not count.
var tokens = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|[\pL_]+|[^\s\pL0-9─-]`)

// differs describes the first difference of two texts, "" if there is none.
func differs(was, is string) string {
	a, b := tokens.FindAllString(was, -1), tokens.FindAllString(is, -1)
	for i := range max(len(a), len(b)) {
		x, y := at(a, i), at(b, i)
		if x == y || near(x, y) {
			continue
		}
		return fmt.Sprintf("%q, now %q, behind %q", x, y, strings.Join(a[max(0, i-5):min(i, len(a))], " "))
	}
	return ""
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

func near(x, y string) bool {
	a, err := strconv.ParseFloat(x, 64)
	b, err2 := strconv.ParseFloat(y, 64)
	if err != nil || err2 != nil {
		return false
	}
	return math.Abs(a-b) <= max(mayDifferA, mayDiffer*max(math.Abs(a), math.Abs(b)))
}
