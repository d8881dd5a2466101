package data

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/registry"
)

// sheet is a table of text that was read.
type sheet struct {
	named    bool     // line 1 holds the names of columns
	label    string   // the column of labels, by its name or number
	features []string // the columns of features, by name or number
	x        []float64
	labels   []string // as classes are called
	notes    []string // how the file was understood
}

// lines is a sheet while its lines come in.
type lines struct {
	label string   // as it was asked for
	first []string // fields of line 1
	line  int      // of it
	at    int      // the column of labels
	like  *sheet   // the sheet of the training set; nil in that sheet itself

	below  []column // counts of the fields below line 1
	x      []float64
	labels []string
	class  map[string]string // how a label is called
}

// column counts the fields of a column below line 1: numbers, of them those that are not
// written as whole, and others.
type column struct{ numbers, decimals, texts int }

// parseCSV reads a table. like is the table of the training set, nil for that itself.
// Errors begin with a colon and the line.
func parseCSV(b []byte, label string, like *sheet) (*sheet, error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.ReuseRecord, r.TrimLeadingSpace = true, true
	if r.Comma = separator(b); r.Comma == '\t' { // which is a space itself
		r.TrimLeadingSpace = false
	}
	s := &lines{label: label, like: like, class: map[string]string{}}
	for {
		rec, err := r.Read()
		if err == io.EOF {
			break
		}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			if errors.Is(parse.Err, csv.ErrFieldCount) {
				return nil, fmt.Errorf(":%d: %d fields, the first line has %d", parse.Line, len(rec), len(s.first))
			}
			return nil, fmt.Errorf(":%d: %w", parse.Line, parse.Err)
		}
		if err != nil {
			return nil, fmt.Errorf(": %w", err)
		}
		line, _ := r.FieldPos(0)
		if s.first == nil {
			err = s.begin(rec, line)
		} else {
			err = s.take(rec, line, s.below)
		}
		if err != nil {
			return nil, fmt.Errorf(":%w", err)
		}
	}
	out, err := s.end()
	if err != nil {
		return nil, fmt.Errorf(":%w", err)
	}
	return out, nil
}

// separator returns the character between fields: comma, semicolon or tab, whichever
// line 1 has most of outside quotes.
func separator(b []byte) rune {
	count := map[byte]int{}
	quoted := false
	for _, c := range b {
		if c == '\n' && !quoted {
			break
		}
		if quoted = quoted != (c == '"'); !quoted {
			count[c]++
		}
	}
	sep := byte(',')
	for _, c := range []byte(";\t") {
		if count[c] > count[sep] {
			sep = c
		}
	}
	return rune(sep)
}

// begin stores line 1 and finds the column of labels.
func (s *lines) begin(rec []string, line int) error {
	for _, f := range rec {
		s.first = append(s.first, strings.Clone(strings.TrimSpace(f)))
	}
	s.line, s.below = line, make([]column, len(rec))
	s.x, s.labels = make([]float64, len(rec)-1), make([]string, 1) // room for it, should it be a sample
	if len(rec) < 2 {
		return fmt.Errorf("%d: one column; want a label and at least one feature, apart by comma, semicolon or tab", line)
	}
	name, i, numbered := s.wanted()
	if numbered { // a number is a place, even where some value is the same
		if s.at = i - 1; i < 0 {
			s.at = len(rec) + i
		}
		if i == 0 || s.at < 0 || s.at >= len(rec) {
			return fmt.Errorf("%d: option \"label\": there is no column %d: want 1 to %d, or -1 for the last", line, i, len(rec))
		}
		return nil
	}
	if s.at = slices.Index(s.first, name); s.at < 0 {
		like := ""
		if near := registry.Nearest(name, s.first); near != "" {
			like = fmt.Sprintf("; did you mean %q?", near)
		}
		return fmt.Errorf("%d: option \"label\": there is no column %q%s there are %s", line, name, cmp.Or(like, ";"), ends(s.first))
	}
	if slices.Index(s.first[s.at+1:], name) >= 0 {
		return fmt.Errorf("%d: option \"label\": two columns are called %q", line, name)
	}
	return nil
}

// wanted returns the column of labels: a name, or a number from 1. A test set takes the
// column of the training set, by name if that has names.
func (s *lines) wanted() (name string, n int, numbered bool) {
	if s.like != nil && s.like.named {
		return s.like.label, 0, false
	}
	n, err := strconv.Atoi(s.label)
	return s.label, n, err == nil
}

// take adds a sample and counts its fields in below, nil for line 1.
func (s *lines) take(rec []string, line int, below []column) error {
	for i, field := range rec {
		field = strings.TrimSpace(field)
		v, err := strconv.ParseFloat(field, 64)
		number := err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
		if below != nil {
			switch {
			case !number:
				below[i].texts++
			case !whole(strings.TrimPrefix(field, "-")):
				below[i].decimals++
				fallthrough
			default:
				below[i].numbers++
			}
		}
		switch {
		case i == s.at && missing(field):
			return fmt.Errorf("%d: the label, column %s, is missing (%q); leave the line out, or give it a class", line, s.title(i), field)
		case i == s.at && err == nil && !number:
			return fmt.Errorf("%d: the label, column %s, is %q; want a name or a finite number", line, s.title(i), field)
		case i == s.at:
			class, ok := s.class[field]
			if !ok {
				field = strings.Clone(field)
				class = classOfLabel(field)
				s.class[field] = class
			}
			s.labels = append(s.labels, class)
		case number:
			s.x = append(s.x, v)
		default:
			return fmt.Errorf("%d: column %s: want a number, not %q; leave such lines or columns out, or turn them into numbers", line, s.title(i), field)
		}
	}
	return nil
}

// missing reports whether a field stands for no value, as pandas, R and the sets of UCI
// write it.
func missing(field string) bool {
	switch strings.ToLower(strings.TrimLeft(field, "+-")) {
	case "", "nan", "na", "n/a", "<na>", "#na", "#n/a", "#n/a n/a", "null", "none", "1.#ind", "1.#qnan", "?":
		return true
	}
	return false
}

// classOfLabel is how the class of a label is called: equal numbers are called the same.
func classOfLabel(label string) string {
	v, err := strconv.ParseFloat(label, 64)
	if err != nil || math.IsInf(v, 0) {
		return label
	}
	if digits := strings.TrimLeft(strings.TrimLeft(label, "+-"), "0"); v != 0 && strings.Trim(digits, "0123456789") == "" { // of any length
		if strings.HasPrefix(label, "-") {
			return "-" + digits
		}
		return digits
	}
	if v == 0 {
		return "0" // -0 too
	}
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// end decides whether line 1 holds names or a sample, and makes the sheet.
func (s *lines) end() (*sheet, error) {
	if s.first == nil {
		return nil, errors.New(" no samples in it")
	}
	names, why, err := s.header()
	if err != nil {
		return nil, err
	}
	out := &sheet{named: names}
	what := "holds the names of columns"
	if names {
		out.x, out.labels = s.x[len(s.first)-1:], s.labels[1:]
	} else {
		what = "is a sample"
		out.x, out.labels = s.x, s.labels
		s.x, s.labels = nil, nil
		if err := s.take(s.first, s.line, nil); err != nil {
			return nil, err
		}
		copy(out.x, s.x)
		copy(out.labels, s.labels)
	}
	if len(out.labels) == 0 {
		return nil, errors.New(" no samples in it")
	}
	out.notes = append(out.notes, fmt.Sprintf("line %d %s, as %s; labels are in column %s", s.line, what, why, s.title(s.at)))
	for i, f := range s.first {
		if !names {
			f = strconv.Itoa(i + 1)
		}
		if i == s.at {
			out.label = f
		} else {
			out.features = append(out.features, f)
		}
	}
	if err := s.unnamed(out); err != nil {
		return nil, err
	}
	if s.like != nil {
		return out, out.match(s.like)
	}
	for k, f := range out.features {
		if out.counts(k) {
			out.notes = append(out.notes, fmt.Sprintf("column %s counts the lines; leave it out if it says nothing of a sample", f))
		}
	}
	return out, nil
}

// title is a column's number, and its name if line 1 seems to hold names.
func (s *lines) title(i int) string {
	if names, _, err := s.header(); err != nil || !names || s.first[i] == "" {
		return strconv.Itoa(i + 1)
	}
	return fmt.Sprintf("%d (%s)", i+1, s.first[i])
}

// header reports whether line 1 holds names, and why. All columns count: a text in
// a column of features is a name, if no other field of the line can only be a value. A
// name that is a number is whole, and no other column has it.
func (s *lines) header() (names bool, why string, err error) {
	if s.like != nil && s.like.named && s.sameNames() {
		return true, "they are those of the training set", nil
	}
	label, texts, value := s.labelOfFirst(), "", false
	if name, _, numbered := s.wanted(); !numbered {
		if label == labelAgain {
			return false, "", fmt.Errorf("%d: option \"label\": %q is a label of samples below, so this line holds no names; number the label's column, from 1", s.line, name)
		}
		return true, "the label is named", nil
	}
	seen := map[string]bool{}
	for i, f := range s.first {
		switch whole, number := whole(f), isNumber(f); {
		case i == s.at, missing(f):
		case !number && texts == "":
			texts = f
		case number:
			value = value || !whole || seen[f]
			seen[f] = true
		}
	}
	rows := s.below[s.at].numbers + s.below[s.at].texts
	switch {
	case label == labelAgain:
		return false, fmt.Sprintf("its label %s occurs below", s.first[s.at]), nil
	case label == labelOdd:
		return true, fmt.Sprintf("%q is no label as those below", s.first[s.at]), nil
	case texts != "" && !value:
		return true, fmt.Sprintf("%q is no number", texts), nil
	case texts != "":
		return false, "it holds numbers that are no names", nil
	case s.positions():
		return true, "they count the columns", nil
	case label == labelAlone && rows > len(s.class) && s.rising():
		return false, "", fmt.Errorf("%d: this line may hold names of columns or a sample: its label %q occurs nowhere else. If it holds names, say label=%s; if not, put a line of names above it", s.line, s.first[s.at], s.first[s.at])
	}
	return false, "all of its features are numbers", nil
}

// Kinds of the label in line 1, compared with the labels below.
const (
	labelAgain = iota // equal to a label below
	labelOdd          // a text where they are numbers, or the other way round
	labelAlone        // a text among texts that occurs once
	labelOther        // a number that occurs once, or missing
)

func (s *lines) labelOfFirst() int {
	f, below := s.first[s.at], s.below[s.at]
	class, number := classOfLabel(f), isNumber(f)
	for _, c := range s.class {
		if c == class {
			if number && s.positions() {
				return labelOther // a column's place decides nothing
			}
			return labelAgain
		}
	}
	switch {
	case missing(f) || below == column{}:
		return labelOther
	case number && below.numbers == 0, !number && below.texts == 0:
		return labelOdd
	case number:
		return labelOther
	}
	return labelAlone
}

func isNumber(f string) bool { _, err := strconv.ParseFloat(f, 64); return err == nil }

func whole(f string) bool { return f != "" && strings.Trim(f, "0123456789") == "" }

// positions reports whether line 1 counts its columns from 0, as pandas names them: all of
// four columns or more, or of two where no feature below is written as whole; all after a
// column without a name; or, from 0 or 1, all but the label's, which has a name.
func (s *lines) positions() bool {
	list, least, next := slices.Clone(s.first), 4, 0
	if s.decimals() {
		least = 2
	}
	if !isNumber(s.first[s.at]) {
		list, least = slices.Delete(list, s.at, s.at+1), 2
	}
	if len(list) > 0 && list[0] == "" {
		list, least = list[1:], 2
	}
	if len(list) > 0 && list[0] == "1" && len(list) < len(s.first) {
		next = 1
	}
	for _, f := range list {
		if f != strconv.Itoa(next) {
			return false
		}
		next++
	}
	return len(list) >= least
}

// decimals reports whether two lines or more follow without a feature written as whole.
func (s *lines) decimals() bool {
	for i, c := range s.below {
		if i != s.at && (c.decimals < 2 || c.decimals < c.numbers) {
			return false
		}
	}
	return true
}

// rising reports whether the features of line 1 are three or more rising numbers.
func (s *lines) rising() bool {
	last, n := math.Inf(-1), 0
	for i, f := range s.first {
		v, err := strconv.ParseFloat(f, 64)
		if i == s.at {
			continue
		}
		if err != nil || v <= last {
			return false
		}
		last, n = v, n+1
	}
	return n >= 3
}

// sameNames reports whether line 1 has the names of the training set's columns, in any order.
func (s *lines) sameNames() bool {
	for _, name := range append([]string{s.like.label}, s.like.features...) {
		if !slices.Contains(s.first, name) {
			return false
		}
	}
	return true
}

// unnamed leaves out columns of whole numbers that have no name and of which no two are
// equal: pandas writes its index so. It refuses others, and labels in such a column.
func (s *lines) unnamed(out *sheet) error {
	if !out.named {
		return nil
	}
	nameless := func(name string) bool { return name == "" || strings.HasPrefix(name, "Unnamed: ") }
	if nameless(out.label) {
		return fmt.Errorf("%d: the label's column, %d, has no name, as the index that pandas writes; say label=… with one of %s", s.line, s.at+1, ends(out.features))
	}
	var keep []int
	var gone []string
	for i, k := 0, 0; i < len(s.first); i++ {
		if i == s.at {
			continue
		}
		switch {
		case !nameless(s.first[i]):
			keep = append(keep, k)
		case out.distinct(k):
			gone = append(gone, strconv.Itoa(i+1))
		default:
			return fmt.Errorf("%d: column %d has no name and is no index of the lines; give it a name, or leave it out", s.line, i+1)
		}
		k++
	}
	switch {
	case len(gone) == 0:
		return nil
	case len(keep) == 0:
		return fmt.Errorf("%d: no feature beside the label and an index without a name", s.line)
	}
	out.pick(keep)
	out.notes = append(out.notes, fmt.Sprintf("column %s is left out: an index without a name", listed(gone)))
	return nil
}

// distinct reports whether the values of feature k are whole and all different.
func (s *sheet) distinct(k int) bool {
	seen := make(map[float64]bool, len(s.labels))
	for i := range s.labels {
		v := s.x[i*len(s.features)+k]
		if v != math.Trunc(v) || seen[v] {
			return false
		}
		seen[v] = true
	}
	return true
}

// counts reports whether feature k is the number of the line, from 0 or 1.
func (s *sheet) counts(k int) bool {
	first := s.x[k]
	for i := range s.labels {
		if s.x[i*len(s.features)+k] != first+float64(i) {
			return false
		}
	}
	return len(s.labels) >= 3 && (first == 0 || first == 1)
}

// pick keeps these features, in this order.
func (s *sheet) pick(keep []int) {
	dim := len(s.features)
	x, features := make([]float64, 0, len(s.labels)*len(keep)), make([]string, 0, len(keep))
	for i := range s.labels {
		for _, k := range keep {
			x = append(x, s.x[i*dim+k])
		}
	}
	for _, k := range keep {
		features = append(features, s.features[k])
	}
	s.x, s.features = x, features
}

// match puts the features of a test set into the order of the training set's, by name.
func (s *sheet) match(like *sheet) error {
	has := map[bool]string{true: "names", false: "no names"}
	switch {
	case s.named != like.named:
		return fmt.Errorf(" its columns have %s, those of the training set %s; give both or neither a line of names", has[s.named], has[like.named])
	case !s.named || slices.Equal(s.features, like.features):
		return nil
	}
	place := map[string]int{}
	for k, f := range s.features {
		if _, twice := place[f]; twice {
			return fmt.Errorf(" two columns are called %q, which cannot be matched to the training set's", f)
		}
		place[f] = k
	}
	var keep []int
	var without, more []string
	for _, f := range like.features {
		k, ok := place[f]
		if !ok {
			without = append(without, f)
		}
		keep = append(keep, k)
		delete(place, f)
	}
	for _, f := range s.features {
		if _, ok := place[f]; ok {
			more = append(more, f)
		}
	}
	if len(without)+len(more) > 0 {
		return fmt.Errorf(" its columns are not those of the training set: without %s; more: %s", orNone(without), orNone(more))
	}
	s.pick(keep)
	s.notes = append(s.notes, "columns are in another order and are matched by name")
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return listed(names)
}
