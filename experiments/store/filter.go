package store

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
)

// Condition is one filter: a field, an operator, a value. Runs that do not know
// the field do not meet it.
//
//	workers=4  workers!=4   equal or not, in the text or the number; codec=raw,bf16 is either
//	codec~topk codec!~topk  the text holds it or not, upper and lower case alike
//	tags=paper              runs that have the tag
//	accuracy>0.9  >=  <  <= numbers; instants as 2026-11-21, or as an age such as 2h
//	network.bandwidth>=1Gbps  keys with units read them, as do bytes>1GB and seconds<2ms
type Condition struct {
	Field Field
	Op    string
	Value string

	any     []string // alternatives of = and !=, in the form they are compared in
	number  any      // float64 or uint64
	instant time.Time
}

var operators = []string{"!=", "!~", ">=", "<=", "=", "~", ">", "<"}

// IsCondition reports whether a text looks like a filter.
func IsCondition(s string) bool {
	i := strings.IndexAny(s, "=~<>!")
	return i > 0 && !strings.ContainsAny(s[:i], `/\`)
}

// ParseCondition reads a filter. Ages are measured from now.
func ParseCondition(s string, now time.Time) (Condition, error) {
	i := strings.IndexAny(s, "=~<>!")
	if i <= 0 {
		return Condition{}, fmt.Errorf("%q is no filter; want a field, an operator and a value, such as codec~topk, accuracy>0.9 or workers=4", s)
	}
	f, err := FieldNamed(strings.ToLower(strings.TrimSpace(s[:i])))
	if err != nil {
		return Condition{}, err
	}
	c := Condition{Field: f}
	for _, op := range operators {
		if rest, ok := strings.CutPrefix(s[i:], op); ok {
			c.Op, c.Value = op, strings.TrimSpace(rest)
			break
		}
	}
	if c.Op == "" {
		return c, fmt.Errorf("filter %q: no operator; there are %s", s, strings.Join(operators, " "))
	}
	switch c.Op {
	case "=", "!=":
		for _, v := range splitTop(c.Value) {
			c.any = append(c.any, f.canonical(v))
		}
	case ">", "<", ">=", "<=":
		switch f.Kind {
		case Text:
			err = fmt.Errorf("%s is text; use = or ~", f.Name)
		case Bool:
			err = fmt.Errorf("%s is true or false; use =", f.Name)
		case Instant:
			c.instant, err = parseInstant(c.Value, now)
		default:
			text := f.canonical(c.Value)
			if whole, no := strconv.ParseUint(text, 10, 64); no == nil {
				c.number = whole
			} else if c.number, err = strconv.ParseFloat(text, 64); err != nil {
				err = fmt.Errorf("want a number, not %q", c.Value)
			}
		}
		if err != nil {
			return c, fmt.Errorf("filter %q: %w", s, err)
		}
	}
	return c, nil
}

// canonical is a typed value in the form in which values are compared: keys of
// the configuration read units and write spec text the way resolved
// configurations do, so codec=topk(keep=.01) finds topk(keep=0.01).
func (f Field) canonical(v string) string {
	c := config.Default()
	if c.Set(f.Name, v) == nil {
		v = config.Canonical(f.Name, c.Get(f.Name))
	}
	if d, err := time.ParseDuration(v); err == nil && f.Kind == Seconds {
		return exact(d.Seconds())
	}
	scale, text := 1.0, v
	if f.Kind == Bytes {
		scale, text = bytesIn(v)
	}
	if x, err := strconv.ParseUint(text, 10, 64); err == nil && f.Kind.Numeric() && scale == 1 {
		return exact(x)
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && f.Kind.Numeric() {
		if x *= scale; f.Kind.isWhole() && x == math.Trunc(x) {
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
		return exact(x)
	}
	return v
}

// bytesIn cuts the unit off a number of bytes, such as 1.5 GB.
func bytesIn(v string) (unit float64, number string) {
	unit = 1e15
	for _, suffix := range []string{"PB", "TB", "GB", "MB", "kB", "B"} {
		if number, ok := strings.CutSuffix(v, suffix); ok {
			return unit, strings.TrimSpace(number)
		}
		unit /= 1000
	}
	return 1, v
}

func parseInstant(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("want a day such as 2026-11-21, or an age such as 2h, not %q", s)
}

// Meets reports whether a run meets the condition.
func (c Condition) Meets(r *Run) bool {
	v, ok := c.Field.get(r)
	if !ok {
		return false
	}
	switch c.Op {
	case "=", "!=":
		found := false
		for _, a := range c.any {
			found = found || exact(v) == a || c.Field.Name == "tags" && slices.Contains(r.About.Tags, a)
		}
		return found == (c.Op == "=")
	case "~", "!~":
		return strings.Contains(strings.ToLower(exact(v)), strings.ToLower(c.Value)) == (c.Op == "~")
	}
	order := 0
	switch v := v.(type) {
	case float64, uint64:
		order = compareNumbers(v, c.number)
	case time.Time:
		order = v.Compare(c.instant)
	}
	switch c.Op {
	case ">":
		return order > 0
	case "<":
		return order < 0
	case ">=":
		return order >= 0
	}
	return order <= 0
}

// Filter keeps the runs that meet all conditions.
func Filter(runs []*Run, conditions ...Condition) []*Run {
	var out []*Run
next:
	for _, r := range runs {
		for _, c := range conditions {
			if !c.Meets(r) {
				continue next
			}
		}
		out = append(out, r)
	}
	return out
}
