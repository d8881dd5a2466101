package figure

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gradlab/gradlab/internal/regular"
)

// Table is rows of text, with what it takes to fit them to a terminal. As JSON it
// is its title, header and rows.
type Table struct {
	Title  string     `json:"title,omitempty"` // a line above the table; "": none
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"` // of as many cells as the header, or fewer
	Right  []bool     `json:"-"`    // columns aligned on the right: numbers, which are never cut; may be shorter than the header
	// Spare lists columns that may be left out where room is short, the first
	// to go first.
	Spare []int `json:"-"`
	// Lead, if not 0, is how many columns say what a row is about. A table that
	// is too wide becomes several below each other, which all begin with these.
	Lead int `json:"-"`
}

// AllButFirst aligns all columns but the first on the right.
func AllButFirst(columns int) []bool {
	right := make([]bool, columns)
	for i := range right {
		right[i] = i > 0
	}
	return right
}

// narrow is what a column of text may be cut down to.
const narrow = 20

// Write writes the table: style is box, markdown or csv. A box is fitted to
// width columns, 0 being any: it is folded if it has a lead; else texts are cut in
// the middle, then spare columns left out, and a line says which.
func (t Table) Write(w io.Writer, style string, width int) error {
	if t.Title != "" {
		end := "\n"
		if style == "markdown" {
			end = ":\n\n"
		}
		if _, err := io.WriteString(w, Cell(style, t.Title)+end); err != nil {
			return err
		}
		t.Title = ""
	}
	t = t.shown(style)
	left := ""
	if style == "box" && width > 0 {
		if folds := t.fold(width); len(folds) > 1 {
			for _, f := range folds {
				if err := f.Write(w, style, width); err != nil {
					return err
				}
			}
			return nil
		}
		t, left = t.fit(width)
	}
	text, err := t.text(style)
	if err == nil {
		_, err = fmt.Fprintln(w, text)
	}
	if err == nil && left != "" {
		_, err = fmt.Fprintf(w, "not shown: %s\n", left)
	}
	return err
}

// Cell is a text of others as it stands in a style of table: graphic characters, at most
// 4 KiB a line; in markdown without HTML and pictures, in CSV nothing that a spreadsheet
// computes.
func Cell(style, text string) string {
	switch text = regular.Shown(text); style {
	case "markdown":
		return html.ReplaceAllString(strings.ReplaceAll(text, "![", `!\[`), "&lt;$1")
	case "csv":
		return Uncomputed(text)
	}
	return text
}

// Uncomputed is a text that a spreadsheet takes for no formula: one that looks like a
// formula has an apostrophe before it, as spreadsheets write it.
func Uncomputed(text string) string {
	if computes.MatchString(text) && !amount.MatchString(text) {
		return "'" + text
	}
	return text
}

var (
	html     = regexp.MustCompile(`<([A-Za-z/!?])`)
	computes = regexp.MustCompile("^[=+\\-@\t\r]")
	amount   = regexp.MustCompile(`^[+-]?[\d., ]+(e[+-]?\d+)?[ %×]*$`)
)

// shown is the table with its cells as they stand in a style.
func (t Table) shown(style string) Table {
	cells := func(row []string) []string {
		out := make([]string, len(row))
		for i, c := range row {
			out[i] = Cell(style, c)
		}
		return out
	}
	rows := t.Rows
	t.Header, t.Rows = cells(t.Header), make([][]string, len(rows))
	for i, r := range rows {
		t.Rows[i] = cells(r)
	}
	return t
}

// text is the table in a style, without the last end of line.
func (t Table) text(style string) (string, error) {
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	w.Style().Format.Header = text.FormatDefault // not upper case
	w.AppendHeader(row(t.Header))
	for _, r := range t.Rows {
		w.AppendRow(row(r))
	}
	var columns []table.ColumnConfig
	for i, right := range t.Right {
		if right {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	w.SetColumnConfigs(columns)
	switch style {
	case "box":
		return w.Render(), nil
	case "markdown":
		return w.RenderMarkdown(), nil
	case "csv":
		return w.RenderCSV(), nil
	}
	return "", fmt.Errorf("figure: table style %q; want box, markdown or csv", style)
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = c
	}
	return r
}

// fold shares the columns out among tables that each fit into width, where the
// lead takes up to half of it.
func (t Table) fold(width int) []Table {
	widths := t.widths()
	total, lead := 1, 1
	for i, n := range widths {
		if total += n + 3; i < t.Lead {
			lead += n + 3
		}
	}
	if t.Lead == 0 || total <= width {
		return nil
	}
	lead = min(lead, width/2)
	var out []Table
	var take []int
	flush := func() {
		keep := make([]bool, len(t.Header))
		for i := range keep {
			keep[i] = i < t.Lead || slices.Contains(take, i)
		}
		out = append(out, t.cut(keep, widths))
		take = nil
	}
	used := lead
	for i := t.Lead; i < len(widths); i++ {
		if used+widths[i]+3 > width && len(take) > 0 {
			flush()
			used = lead
		}
		take = append(take, i)
		used += widths[i] + 3
	}
	flush()
	return out
}

// fit cuts the table down to width, and names the columns it left out.
func (t Table) fit(width int) (Table, string) {
	keep := make([]bool, len(t.Header))
	for i := range keep {
		keep[i] = true
	}
	var left []string
	for {
		widths := t.widths()
		total := 1
		for i, n := range widths {
			if keep[i] {
				total += n + 3
			}
		}
		// The widest texts give way first.
		for total > width {
			widest := -1
			for i, n := range widths {
				if keep[i] && !t.right(i) && n > narrow && (widest < 0 || n > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
		if total <= width || len(t.Spare) == 0 {
			return t.cut(keep, widths), strings.Join(left, ", ")
		}
		if keep[t.Spare[0]] {
			left = append(left, t.Header[t.Spare[0]])
		}
		keep[t.Spare[0]] = false
		t.Spare = t.Spare[1:]
	}
}

func (t Table) right(i int) bool { return i < len(t.Right) && t.Right[i] }

func (t Table) widths() []int {
	out := make([]int, len(t.Header))
	for i, h := range t.Header {
		out[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.Rows {
		for i, c := range r {
			out[i] = max(out[i], utf8.RuneCountInString(c))
		}
	}
	return out
}

func (t Table) cut(keep []bool, widths []int) Table {
	row := func(cells []string) (out []string) {
		for i, c := range cells {
			if keep[i] {
				out = append(out, middle(c, widths[i]))
			}
		}
		return out
	}
	out := Table{Header: row(t.Header)}
	for i := range keep {
		if keep[i] {
			out.Right = append(out.Right, t.right(i))
		}
	}
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, row(r))
	}
	return out
}

// middle cuts a text to n characters, keeping both ends.
func middle(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := (n - 1) / 2
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}
