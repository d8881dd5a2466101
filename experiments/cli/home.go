package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/data"
)

// headings are those of the list of commands, and what stands below them.
var headings = []struct {
	id, title string
	commands  []string
}{
	{"make", "Make runs", []string{"run", "sweep", "extend", "join", "launch", "data", "init"}},
	{"look", "Look at them", []string{"runs", "show", "report", "serve", "replay", "weights", "sample"}},
	{"ask", "Ask and check", []string{"advise", "whatif", "calibrate", "list", "recipe", "schedule", "codec", "topology", "timeline", "bench", "reproduce", "notebook", "python", "virtual", "version"}},
}

// home is what gradlab alone prints: the first steps, the commands, and what
// there is here.
func (e *env) home(root *cobra.Command) error {
	w := e.out
	fmt.Fprint(w, `gradlab: for this model, on that cluster, which optimizer, staleness rule, codec
and topology reaches the accuracy soonest, and what does it cost in bytes?

First steps
  gradlab run quickstart               four codecs on a virtual 1 Gb/s cluster
  gradlab sweep quickstart codec=raw,bf16 workers=1,2,4 --repeats 3 --dry-run
  gradlab runs compare runs/quickstart with intervals and significance
  gradlab help                         topics: spec text, sweeps, statistics …
`)
	for _, h := range headings {
		fmt.Fprintf(w, "\n%s\n", h.title)
		for _, name := range h.commands {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				fmt.Fprintf(w, "  %-10s %s\n", c.Name(), c.Short)
			}
		}
	}
	fmt.Fprintln(w)
	e.here(w)
	return nil
}

// here tells which runs and data sets there are.
func (e *env) here(w io.Writer) {
	if _, err := os.Stat("runs"); err != nil {
		fmt.Fprintln(w, "No runs here yet.")
	} else if runs, _ := store.Find("runs"); len(runs) > 0 {
		fmt.Fprintf(w, "In runs/: %s. The last of them:\n", count(runs))
		fields, err := fieldsNamed("id,recipe,run,state,metrics,bytes", runs)
		if err == nil {
			columns := width(w)
			if columns == 0 {
				columns = 80
			}
			_ = store.List(runs[max(0, len(runs)-3):], fields).Write(w, "box", columns)
		}
	}
	p := e.places()
	var there, missing []string
	for _, in := range data.List() {
		if in.Own {
			continue
		}
		loc, err := data.Locate(in.Name, data.Options{Dir: p.Dir, Cache: p.Cache})
		if in.BuiltIn || err == nil && loc.Found {
			there = append(there, in.Name)
		} else {
			missing = append(missing, in.Name)
		}
	}
	fmt.Fprintln(w, lines("Data here: "+strings.Join(there, ", ")+"."))
	if len(missing) > 0 {
		fmt.Fprintf(w, "%s\ngradlab data tells how to get them.\n", lines("Not here: "+strings.Join(missing, ", ")+"."))
	}
}

// lines breaks a sentence into lines of up to 80 characters.
func lines(text string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > 80:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// arrange puts the commands under their headings.
func arrange(root *cobra.Command) {
	for _, h := range headings {
		root.AddGroup(&cobra.Group{ID: h.id, Title: h.title})
		for _, name := range h.commands {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.GroupID = h.id
			}
		}
	}
}
