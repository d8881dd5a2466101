package data

import (
	"fmt"
	"path/filepath"
	"strings"
)

// MissingError says that a set is not on this machine and what to do about it.
type MissingError struct {
	Name    string
	Looked  []string // places looked at
	Put     string   // folder to put Files in, "" if none is set
	Files   []string // names of the official files
	URLs    []string // addresses of the first file, in order of preference
	Hint    string   // another way to get it
	Attempt error    // why a download failed, nil if none was tried
}

// Unwrap returns the failure of the download.
func (e *MissingError) Unwrap() error { return e.Attempt }

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "data: %s is not on this machine", e.Name)
	if len(e.Looked) > 0 {
		fmt.Fprintf(&b, " (looked in %s)", strings.Join(e.Looked, ", "))
	}
	if e.Attempt != nil {
		fmt.Fprintf(&b, " and could not be downloaded: %v", e.Attempt)
	}
	b.WriteString("\nways to get it:")
	if len(e.Files) > 0 {
		put := e.Put
		if put == "" {
			put = filepath.Join("DIR", e.Name)
		}
		if e.Attempt == nil {
			fmt.Fprintf(&b, "\n  - let gradlab download it: gradlab data %s --fetch", e.Name)
		}
		fmt.Fprintf(&b, "\n  - put %s into %s", strings.Join(e.Files, ", "), put)
		for i, u := range e.URLs {
			fmt.Fprintf(&b, "%s%s", [2]string{"\n    from ", "\n    or   "}[min(i, 1)], u)
		}
	}
	fmt.Fprintf(&b, "\n  - point --data-dir or GRADLAB_DATA_DIR at a folder that has it as %s%c…", e.Name, filepath.Separator)
	if e.Hint != "" {
		fmt.Fprintf(&b, "\n  - %s", e.Hint)
	}
	b.WriteString("\n  - use digits or synthetic, which need no files")
	return b.String()
}

// missing makes the error; cause is a failed download's.
func (r *recipe) missing(o Options, cause error) error {
	e := &MissingError{Name: r.name, Put: r.home(o), Hint: r.hint, Attempt: cause}
	for _, dir := range []string{o.Dir, o.Cache} {
		if dir != "" {
			e.Looked = append(e.Looked, dir)
		}
	}
	e.Looked = append(e.Looked, r.system...)
	for _, f := range r.files {
		e.Files = append(e.Files, f.name)
	}
	if len(r.files) > 0 {
		for _, u := range r.sources(o) {
			e.URLs = append(e.URLs, u+r.files[0].name)
		}
	}
	return e
}
