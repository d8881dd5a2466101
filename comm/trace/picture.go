package trace

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/portable"
)

// Window is a stretch of virtual time.
type Window struct{ From, To time.Duration }

// Of says in words that this is the beginning of a longer stretch: the first
// 70ms of 897ms. It says nothing if it is all of it.
func (w Window) Of(all Window) string {
	if w.To >= all.To {
		return ""
	}
	return fmt.Sprintf("the first %s of %s", brief(w.To-all.From), brief(all.To-all.From))
}

// brief leaves three digits of a time.
func brief(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

const (
	mostRows  = 64
	mostItems = 4000 // in a picture that was not told its window
	leftEdge  = 96.0
	width     = 1000.0 // of time
	rowHeight = 16.0
	topEdge   = 44.0
)

// colours of what ranks do; those of sending lie below the rest of a row.
var colours = map[string]string{"compute": "#4477aa", "sleep": "#ccbb44", "wait": "#e3e3e3", "send": "#ee6677"}

// SVG draws who computes, waits and sends, a row a rank, at most 64 of them. The
// zero Window is all of it, or as much from the beginning on as can be looked at.
func (r *Recorder) SVG(out io.Writer, win Window) error {
	if win.From >= win.To {
		win = r.Overview()
	}
	rows := min(r.ranks(), mostRows)
	height := topEdge + float64(float64(rows)*rowHeight) + 40
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="10">`+"\n", leftEdge+width+14, height)
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	x := leftEdge
	for _, k := range []string{"compute", "wait", "send", "sleep"} {
		fmt.Fprintf(w, `<rect x="%g" y="8" width="12" height="10" fill="%s"/><text x="%g" y="17">%s</text>`+"\n", x, colours[k], x+16, k)
		x += 76
	}
	if n := r.ranks() - rows; n > 0 {
		fmt.Fprintf(w, `<text x="%g" y="17">and %d more ranks</text>`+"\n", x, n)
	}
	if part := win.Of(r.All()); part != "" && win.From <= r.All().From {
		fmt.Fprintf(w, `<text x="%g" y="17" text-anchor="end">%s</text>`+"\n", leftEdge+width, part)
	}
	for i := range rows {
		name := "rank " + strconv.Itoa(i)
		if r.Names != nil {
			name = r.Names[i]
		}
		fmt.Fprintf(w, `<text x="%g" y="%g" text-anchor="end">%s</text>`+"\n", leftEdge-6, topEdge+float64(float64(i)*rowHeight)+11, html.EscapeString(name))
	}
	p := &picture{w: w, win: win, rows: rows}
	// What hides less comes first: waiting of one activity while another computes.
	for _, doing := range []sim.Doing{sim.Waiting, sim.Sleeping, sim.Computing} {
		p.reset()
		for _, s := range r.spans {
			if s.Doing == doing {
				p.bar(s.Rank, s.From, s.To, 2, 8, colours[doing.String()])
			}
		}
		p.flush()
	}
	p.reset()
	for _, f := range r.frames {
		p.bar(int(f.Header.From), f.Began, f.Left, 10, 4, colours["send"])
	}
	p.flush()
	p.axis(topEdge + float64(float64(rows)*rowHeight) + 4)
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// Overview is the longest window from the beginning on without too many items.
func (r *Recorder) Overview() Window {
	kept := r.Kept()
	if len(r.spans)+len(r.frames) <= mostItems {
		return kept
	}
	ends := make([]time.Duration, 0, len(r.spans)+len(r.frames))
	for _, s := range r.spans {
		ends = append(ends, s.To)
	}
	for _, f := range r.frames {
		ends = append(ends, f.Left)
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	return Window{kept.From, max(ends[mostItems], kept.From+1)}
}

type picture struct {
	w    *bufio.Writer
	win  Window
	rows int
	last []bar // of each row; not drawn yet
}

type bar struct {
	x0, x1, y, height float64
	colour            string
}

func (p *picture) reset() { p.last = make([]bar, p.rows) }

// x is where an instant lies.
func (p *picture) x(t time.Duration) float64 {
	return leftEdge + width*float64(t-p.win.From)/float64(p.win.To-p.win.From)
}

// bar draws a stretch of a rank's row. What is nearer to the one before than the
// eye sees becomes one with it.
func (p *picture) bar(rank int, from, to time.Duration, y, height float64, colour string) {
	if rank >= p.rows || to <= p.win.From || from >= p.win.To || from >= to {
		return
	}
	b := bar{p.x(max(from, p.win.From)), p.x(min(to, p.win.To)), topEdge + float64(float64(rank)*rowHeight) + y, height, colour}
	last := &p.last[rank]
	if last.colour != "" && b.x0 <= last.x1+0.05 && b.x1 >= last.x0-0.05 {
		last.x0, last.x1 = min(last.x0, b.x0), max(last.x1, b.x1)
		return
	}
	p.draw(*last)
	*last = b
}

func (p *picture) flush() {
	for _, b := range p.last {
		p.draw(b)
	}
}

func (p *picture) draw(b bar) {
	if b.colour != "" {
		fmt.Fprintf(p.w, `<rect x="%.2f" y="%g" width="%.2f" height="%g" fill="%s"/>`+"\n", b.x0, b.y, max(b.x1-b.x0, 0.2), b.height, b.colour)
	}
}

// axis draws ticks at round times.
func (p *picture) axis(y float64) {
	fmt.Fprintf(p.w, `<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="black" stroke-width="0.5"/>`+"\n", leftEdge, y, leftEdge+width, y)
	span := (p.win.To - p.win.From).Seconds()
	step := portable.Pow(10, math.Floor(portable.Log(span/4)/math.Ln10))
	for _, f := range []float64{5, 2} {
		if span/(step*f) >= 4 {
			step *= f
			break
		}
	}
	for k := math.Ceil(p.win.From.Seconds() / step); k*step <= p.win.To.Seconds()*(1+1e-12); k++ {
		t := time.Duration(math.Round(k * step * 1e9))
		fmt.Fprintf(p.w, `<line x1="%.2f" y1="%g" x2="%.2f" y2="%g" stroke="black" stroke-width="0.5"/><text x="%.2f" y="%g" text-anchor="middle">%s</text>`+"\n",
			p.x(t), y, p.x(t), y+4, p.x(t), y+15, t)
	}
	fmt.Fprintf(p.w, `<text x="%g" y="%g" text-anchor="end">virtual time</text>`+"\n", leftEdge+width, y+28)
}
