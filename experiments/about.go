package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// About is what people say of a run beside its configuration: a name, tags, a
// note. It lies in about.json of the run's folder, is no part of the run's
// identity, and may be changed at any time.
type About struct {
	Name string   `json:"name,omitempty"`
	Tags []string `json:"tags,omitempty"` // sorted, each once
	Note string   `json:"note,omitempty"`
}

// Empty reports whether nothing is said.
func (a About) Empty() bool { return a.Name == "" && len(a.Tags) == 0 && a.Note == "" }

// ParseTags reads tags that are apart by commas. A tag is a word: tags are read
// from lists, and filters name them.
func ParseTags(text string) ([]string, error) {
	var out []string
	for _, t := range strings.Split(text, ",") {
		t = strings.TrimSpace(t)
		if t == "" || strings.ContainsAny(t, " \t\n\"'()[]=<>!~") {
			return nil, fmt.Errorf("tag %q: want words apart by commas, such as baseline,paper", t)
		}
		out = append(out, t)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// With is what is said when more is said: a name or note takes the place of that
// before, tags are added.
func (a About) With(more About) About {
	if more.Name != "" {
		a.Name = more.Name
	}
	if more.Note != "" {
		a.Note = more.Note
	}
	a.Tags = append(slices.Clone(a.Tags), more.Tags...)
	slices.Sort(a.Tags)
	a.Tags = slices.Compact(a.Tags)
	return a
}

// Check refuses a name or tags that could not be read back from a line.
func (a About) Check() error {
	if strings.ContainsAny(a.Name, "\n\r\t") || len(a.Name) > 200 {
		return fmt.Errorf("name %q: want one line of 200 characters at most", a.Name)
	}
	for _, t := range a.Tags {
		if _, err := ParseTags(t); err != nil || strings.Contains(t, ",") {
			return fmt.Errorf("tag %q: want a word", t)
		}
	}
	return nil
}

// ReadAbout reads what is said of a run; nothing if nothing was.
func ReadAbout(folder string) (a About, err error) {
	err = readJSON(filepath.Join(folder, AboutFile), &a)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return a, err
}

// WriteAbout replaces what is said of a run.
func WriteAbout(folder string, a About) error {
	if err := a.Check(); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, AboutFile), a)
}

// AboutFile is where in a run's folder that lies.
const AboutFile = "about.json"

// describe adds to what is said of a run.
func describe(folder string, more About) error {
	if more.Empty() {
		return nil
	}
	a, err := ReadAbout(folder)
	if err != nil {
		return err
	}
	return WriteAbout(folder, a.With(more))
}

// line is what is said in one line: name, tags, note.
func (a About) line() string {
	var parts []string
	for _, p := range [][2]string{{"name: ", a.Name}, {"tags: ", strings.Join(a.Tags, ", ")}, {"note: ", a.Note}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, "; ")
}
