package pipeline

import (
	"fmt"
	"io"
	"strings"
)

// Draw writes a line of at most width columns for each device: its cells from left to right
// as time passes, each with its action at its beginning, and dots where it waits. Where
// every device has one stage, actions go without their stage, and where there is no room
// without their numbers too. With width 0 lines are as long as all texts need, up to 1,000.
func (c *Cost) Draw(w io.Writer, p *Plan, width int) error {
	if c.Seconds == 0 {
		_, err := fmt.Fprintln(w, "no pass takes any time")
		return err
	}
	name := len(fmt.Sprint(len(p.Devices) - 1))
	if width == 0 {
		width = min(longest, name+1+int(c.Seconds*c.density(p)))
	}
	scale := float64(max(width-name-1, 1)) / c.Seconds
	column := func(t float64) int { return int(t*scale + 0.5) }
	for d, cells := range p.Devices {
		row := []byte(strings.Repeat(".", column(c.Seconds)))
		for i, cell := range cells {
			lo, hi := column(c.Start[d][i]), column(c.End[d][i])
			text := cell.within(hi-lo, len(p.Stages) > len(p.Devices))
			copy(row[lo:hi], text+strings.Repeat("-", hi-lo-len(text)))
		}
		if _, err := fmt.Fprintf(w, "%*d %s\n", name, d, row); err != nil {
			return err
		}
	}
	return nil
}

// longest is a line that is drawn without being asked for a width.
const longest = 1000

// density is the columns a unit of time needs so that all cells have their text and a dash.
func (c *Cost) density(p *Plan) (most float64) {
	for d, cells := range p.Devices {
		for i, cell := range cells {
			if took := c.End[d][i] - c.Start[d][i]; took > 0 {
				most = max(most, float64(1+len(cell.text(len(p.Stages) > len(p.Devices))))/took)
			}
		}
	}
	return most
}

// within is the longest text of a cell that fits so many columns.
func (c Cell) within(columns int, staged bool) string {
	letters := ""
	for _, a := range c {
		letters += string(a.Kind)
	}
	for _, text := range []string{c.text(staged), c.text(false), letters} {
		if len(text) <= columns {
			return text
		}
	}
	return ""
}

// text is a cell as it is drawn: F3, or 5F3 with its stage, or 5F3+2B1.
func (c Cell) text(staged bool) string {
	var texts []string
	for _, a := range c {
		text := a.String()
		if !staged {
			text = fmt.Sprintf("%c%d", a.Kind, a.Micro)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "+")
}
