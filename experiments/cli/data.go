package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/data"
)

func (e *env) dataCommand() *cobra.Command {
	var fetch, check bool
	c := &cobra.Command{
		Use:   "data [SET]",
		Short: "Where a data set is, what files of yours hold; fetch or check",
		RunE: func(cmd *cobra.Command, args []string) error {
			p := e.places()
			d := progress.New(e.screen)
			defer d.Close()
			opt := data.Options{Dir: p.Dir, Cache: p.Cache, Progress: experiments.Downloads(d)}
			if len(args) == 0 {
				w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
				for _, in := range data.List() {
					where := "built in"
					switch {
					case in.Own:
						where = fmt.Sprintf("yours: data=%s(path=…)", in.Name)
					case !in.BuiltIn:
						if loc, err := data.Locate(in.Name, opt); err == nil && loc.Found {
							where = loc.Path
						} else {
							where = "not here"
							if in.Public {
								what := "it"
								if in.Download > 0 {
									what = progress.Bytes(uint64(in.Download))
								}
								where += fmt.Sprintf("; gradlab data %s --fetch downloads %s", in.Name, what)
							}
						}
					}
					fmt.Fprintf(w, "%s\t%s\t%s\n", in.Name, in.About, where)
				}
				return w.Flush()
			}
			if len(args) > 1 {
				return usageError{fmt.Errorf("data takes one name at most")}
			}
			if check {
				return e.checkData(args[0], opt)
			}
			r, err := data.Describe(args[0], opt)
			if set := data.ReaderOf(args[0]); err != nil && set != "" && !strings.Contains(args[0], "(") {
				return usageError{fmt.Errorf("%q is a file; a set names what reads it: gradlab data '%s'", args[0], set)}
			}
			if err != nil && !r.Found {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if len(r.Findings) > 0 {
				return e.showData(r)
			}
			loc := r.Location
			switch {
			case fetch && loc.Found && loc.Origin != data.Cached: // somebody put it there
			case fetch:
				loc, err = data.Fetch(cmd.Context(), args[0], opt)
			}
			if err != nil {
				return err
			}
			return describe(e.out, loc)
		},
	}
	c.Flags().BoolVar(&fetch, "fetch", false, "download it if it is not here")
	c.Flags().BoolVar(&check, "check", false, "read all of it: compare official files with their published digests, and classes and counts of pictures with the published ones, name pictures that are broken, twice there, grey, CMYK or PNG, and say what to do; of files of your own, such as 'csv(path=t.csv)', count samples and classes, say what was left out, draw some samples; exit code 1 if something is wrong")
	return c
}

// checkData prints what is right and wrong with a copy of a set, or with files of one's
// own.
func (e *env) checkData(name string, opt data.Options) error {
	if _, err := data.Sets.Parse(name); err != nil {
		return usageError{err}
	}
	r, err := data.Check(name, opt)
	if err != nil {
		return err
	}
	if len(r.Findings) == 0 {
		if err := describe(e.out, r.Location); err != nil {
			return err
		}
		return r.Err()
	}
	if err := e.showData(r); err != nil {
		return err
	}
	n := r.Problems()
	if err := r.Err(); err != nil && n == 0 {
		return err
	}
	if n == 0 && r.Origin == data.Yours {
		fmt.Fprintln(e.out, "nothing is wrong with these files")
		return nil
	}
	if n == 0 {
		fmt.Fprintln(e.out, "nothing is wrong with this copy")
		return nil
	}
	fmt.Fprintln(e.out, "what to do:")
	for _, f := range r.Findings {
		if f.Problem {
			fmt.Fprintf(e.out, "  %s: %s\n", f.What, f.Do)
		}
	}
	return fmt.Errorf("data: %s: %d of the things checked are wrong", r.Name, n)
}

// showData prints what is in a set.
func (e *env) showData(r data.Report) error {
	fmt.Fprintln(e.out, strings.TrimSpace(fmt.Sprintf("%s: %s %s", r.Name, r.Origin, r.Path)))
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "  %s\t%d\t%s\n", f.What, f.Count, f.Note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings {
		if len(f.Names) > 0 {
			fmt.Fprintf(e.out, "%s:\n", f.What)
		}
		for _, n := range f.Names {
			fmt.Fprintf(e.out, "  %s\n", n)
		}
		if more := f.Count - len(f.Names); more > 0 && len(f.Names) > 0 {
			fmt.Fprintf(e.out, "  and %d more\n", more)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(e.out, "note: %s\n", note)
	}
	if len(r.Drawn) > 0 {
		fmt.Fprintln(e.out, "samples drawn:")
	}
	for _, line := range r.Drawn {
		fmt.Fprintf(e.out, "  %s\n", line)
	}
	return nil
}

// describe prints where a set is, or should be, and what is known of its files.
func describe(out io.Writer, loc data.Location) error {
	fmt.Fprintln(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s", loc.Name, loc.Origin, loc.Path)))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, f := range loc.Files {
		size := ""
		if f.Size > 0 {
			size = progress.Bytes(uint64(f.Size))
		}
		name := filepath.Base(f.Path)
		if f.State == data.Broken {
			name, size = f.Path, f.Why
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", name, f.State, size)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if loc.Samples > 0 {
		fmt.Fprintf(out, "%d samples read, %d could not be\n", loc.Samples-loc.Unread, loc.Unread)
	}
	return nil
}
