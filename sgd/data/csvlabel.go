package data

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mostCounted limits the different values that askLabel counts in a column.
const mostCounted = 1000

// askLabel is the error of a table whose column of classes was not said. It lists the
// columns with the fewest different values first: the classes are likely among them.
func askLabel(b []byte) error {
	r := csv.NewReader(bytes.NewReader(b))
	r.ReuseRecord, r.Comma, r.FieldsPerRecord = true, separator(b), -1
	var names []string
	var values []map[string]bool
	for rec, err := r.Read(); err == nil; rec, err = r.Read() {
		if names == nil {
			for _, f := range rec {
				names, values = append(names, strings.Clone(strings.TrimSpace(f))), append(values, map[string]bool{})
			}
			continue
		}
		for i, f := range rec[:min(len(rec), len(values))] {
			if f = strings.TrimSpace(f); len(values[i]) < mostCounted && !values[i][f] {
				values[i][strings.Clone(f)] = true
			}
		}
	}
	if names == nil {
		return errors.New(": no samples in it")
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(len(values[i]), len(values[j])) })
	var list []string
	for _, i := range order {
		n := strconv.Itoa(len(values[i]))
		if len(values[i]) == mostCounted {
			n += " or more"
		}
		title := strconv.Itoa(i + 1)
		if names[i] != "" && !isNumber(names[i]) {
			title += " (" + names[i] + ")"
		}
		list = append(list, title+": "+n)
	}
	return fmt.Errorf(": option \"label\": say which column holds the classes, by name or number, such as label=-1 for the last. Different values of columns, fewest first: %s", listed(list))
}

// ends lists names of columns: all of up to 30, else the first and the last of them.
func ends(names []string) string {
	const most = 30
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most/2], ", ") + ", … " + strings.Join(names[len(names)-most/2:], ", ")
}

// fractions reports whether all names of classes are numbers, of which some are not whole.
func fractions(names []string) bool {
	some := false
	for _, n := range names {
		v, err := strconv.ParseFloat(n, 64)
		if err != nil {
			return false
		}
		some = some || v != math.Trunc(v)
	}
	return some
}

// titles returns the names of the features, nil if the table has none.
func (s *sheet) titles() []string {
	if !s.named {
		return nil
	}
	return s.features
}
