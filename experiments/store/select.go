package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Select finds the runs that arguments of a command line name, in any order:
// folders that hold runs, ids or beginnings of them, and filters, which all must hold.
// Without a folder, it looks in base. A folder that cannot be read does
// not hide the others; its error comes beside the runs.
func Select(base string, args []string, now time.Time) ([]*Run, error) {
	var folders, ids []string
	var conditions []Condition
	for _, a := range args {
		if _, err := os.Stat(a); err == nil {
			folders = append(folders, a)
			continue
		}
		if IsCondition(a) {
			c, err := ParseCondition(a, now)
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, c)
			continue
		}
		if len(a) < 3 || strings.Trim(a, "0123456789abcdef") != "" {
			return nil, fmt.Errorf("%q is no folder with runs, no id of a run and no filter such as codec~topk; `gradlab runs list` shows what there is", a)
		}
		ids = append(ids, a)
	}
	if len(folders) == 0 {
		if _, err := os.Stat(base); err != nil {
			return nil, fmt.Errorf("there are no runs in %s yet; make some: gradlab run quickstart", filepath.Clean(base))
		}
		folders = []string{base}
	}
	all, unreadable := Find(folders...)
	runs := all
	if len(ids) > 0 {
		runs = nil
		for _, r := range all {
			for _, id := range ids {
				if r.named(id) {
					runs = append(runs, r)
					break
				}
			}
		}
		for _, id := range ids {
			found := false
			for _, r := range runs {
				found = found || r.named(id)
			}
			if !found {
				return nil, errors.Join(fmt.Errorf("no run in %s has an id that begins with %s; `gradlab runs list` shows what there is", strings.Join(folders, ", "), id), unreadable)
			}
		}
	}
	return Filter(runs, conditions...), unreadable
}

// named reports whether the beginning of an id is the run's.
func (r *Run) named(id string) bool { return strings.HasPrefix(r.ID, id) }
