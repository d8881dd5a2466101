package progress

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/gradlab/gradlab/internal/regular"
)

// row is what is shown of one piece of work.
type row struct {
	d    *Display
	name string
	show func() (done float64, fields []string) // done is negative if unknown
	bar  *mpb.Bar                               // nil: plain lines
	fill mpb.BarFiller
	last time.Time // of the last plain line; guarded by the display
}

func (d *Display) row(name string, show func() (float64, []string)) *row {
	r := &row{d: d, name: clean(name), show: show, fill: mpb.BarStyle().Build(), last: d.now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bars == nil {
		return r
	}
	if n := int32(utf8.RuneCountInString(r.name)); n > d.nameWidth.Load() {
		d.nameWidth.Store(n)
	}
	// A total of 0 keeps the bar until it is taken away.
	if bar, err := d.bars.Add(0, mpb.BarFillerFunc(r.draw), mpb.BarFillerTrim()); err == nil {
		r.bar = bar
		d.open[r] = true
	}
	return r
}

// tell writes a plain line if the row is not drawn and the last was some time ago.
func (r *row) tell(after time.Duration) {
	now := r.d.now()
	r.d.mu.Lock()
	due := !r.d.open[r] && now.Sub(r.last) >= after
	if due {
		r.last = now
	}
	r.d.mu.Unlock()
	if due {
		_, fields := r.show()
		r.d.line(r.name + "  " + strings.Join(fields, "  "))
	}
}

// end leaves a line in the place of the row.
func (r *row) end(summary string) {
	r.d.line(r.name + "  " + summary)
	r.close()
}

// close takes the row away.
func (r *row) close() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.open[r] {
		delete(r.d.open, r)
		r.bar.Abort(true)
	}
}

// draw draws the row in the width there is: name, bar, and as many fields as
// fit.
func (r *row) draw(w io.Writer, st decor.Statistics) error {
	done, fields := r.show()
	width := st.AvailableWidth
	name := fitted(r.name, min(int(r.d.nameWidth.Load()), width/3))
	room := width - utf8.RuneCountInString(name)
	bar := 0
	if done >= 0 {
		bar = min(max(width/8, 10), 24, room-1)
		room -= bar + 1
	}
	var text strings.Builder
	for _, f := range fields {
		n := utf8.RuneCountInString(f) + 2
		if n > room {
			break
		}
		room -= n
		text.WriteString("  " + f)
	}
	if _, err := io.WriteString(w, name); err != nil {
		return err
	}
	if bar > 2 {
		if _, err := io.WriteString(w, " "); err != nil {
			return err
		}
		st.AvailableWidth, st.RequestedWidth = bar, 0
		st.Total, st.Current = 1000, int64(1000*min(done, 1))
		if err := r.fill.Fill(w, st); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// fitted pads or cuts a name to n characters.
func fitted(s string, n int) string {
	have := utf8.RuneCountInString(s)
	if have <= n {
		return s + strings.Repeat(" ", n-have)
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// clean keeps a text on its line, and all but its graphic characters off the terminal.
func clean(s string) string {
	return regular.Line(strings.ReplaceAll(strings.TrimSpace(s), "\n", " "))
}
