package figure

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table writes a table as a box of lines, as Markdown or as CSV: style is box,
// markdown or csv. Columns with rightAlign are aligned on the right; rightAlign
// may be shorter than the header.
func Table(w io.Writer, style string, header []string, rows [][]string, rightAlign []bool) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault // not upper case
	t.AppendHeader(row(header))
	for _, r := range rows {
		t.AppendRow(row(r))
	}
	var columns []table.ColumnConfig
	for i, right := range rightAlign {
		if right {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	render, ok := map[string]func() string{"box": t.Render, "markdown": t.RenderMarkdown, "csv": t.RenderCSV}[style]
	if !ok {
		return fmt.Errorf("figure: table style %q, not box, markdown or csv", style)
	}
	_, err := fmt.Fprintln(w, render())
	return err
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = c
	}
	return r
}
