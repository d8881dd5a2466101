package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// refused is runs that cannot work. Those with one reason share a line, as a mistake on
// the command line is that of every run.
type refused struct {
	reasons []error // each once, in the order in which they came
	runs    map[string][]string
}

func (r *refused) add(run string, why error) {
	if why == nil {
		return
	}
	if r.runs == nil {
		r.runs = map[string][]string{}
	}
	text := why.Error()
	if r.runs[text] == nil {
		r.reasons = append(r.reasons, why)
	}
	r.runs[text] = append(r.runs[text], strconv.Quote(run))
}

// err is nil if there are none.
func (r *refused) err() error {
	var errs []error
	for _, why := range r.reasons {
		runs := r.runs[why.Error()]
		switch n := len(runs); {
		case n == 1 && runs[0] == `""`: // a recipe's only one
			errs = append(errs, why)
		case n == 1:
			errs = append(errs, fmt.Errorf("run %s: %w", runs[0], why))
		case n > 3:
			errs = append(errs, fmt.Errorf("runs %s and %d more: %w", strings.Join(runs[:2], ", "), n-2, why))
		default:
			errs = append(errs, fmt.Errorf("runs %s: %w", listed(runs), why))
		}
	}
	return errors.Join(errs...)
}
