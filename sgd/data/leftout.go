package data

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// tally counts files that are not read, by their ending or by why.
type tally map[string]int

// add counts n files under a reason.
func (y *tally) add(why string, n int) {
	if *y == nil {
		*y = tally{}
	}
	(*y)[why] += n
}

// merge adds the counts of another tally.
func (y *tally) merge(other tally) {
	for why, n := range other {
		y.add(why, n)
	}
}

// ending counts a file under the ending of its name.
func (y *tally) ending(name string) {
	end := strings.ToLower(path.Ext(name))
	if end == "" || len(end) > 16 || strings.ContainsAny(end, " \t\n/\\") {
		end = "without an ending"
	}
	y.add(end, 1)
}

// String lists the counts, the largest first.
func (y tally) String() string {
	var keys []string
	for k := range y {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(y[b], y[a]), cmp.Compare(a, b)) })
	var out []string
	for i, k := range keys {
		if i == named && len(keys) > named+1 {
			rest := 0
			for _, k := range keys[i:] {
				rest += y[k]
			}
			out = append(out, fmt.Sprintf("%d others", rest))
			break
		}
		out = append(out, fmt.Sprintf("%d %s", y[k], k))
	}
	return strings.Join(out, ", ")
}

// leftOut says how many files of the tree are not read as pictures or as texts about
// them, and why; "" if all are.
func (t *tree) leftOut() string {
	sum := tally{}
	sum.merge(t.left)
	for i := range t.files {
		switch t.files[i].kind {
		case imageKind, labelKind, mapKind:
		default:
			sum.ending(t.files[i].name)
		}
	}
	if t.links > 0 {
		sum.add("symbolic links that leave the folder", t.links)
	}
	if len(sum) == 0 {
		return ""
	}
	return "files left out: " + sum.String()
}

// andLeftOut adds to an error how many files were left out, and why.
func (t *tree) andLeftOut(err error) error {
	if note := t.leftOut(); note != "" {
		return fmt.Errorf("%w; %s", err, note)
	}
	return err
}
