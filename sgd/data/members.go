package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// members is the recognised files of one archive, a tar or a zip, as the folder that it
// unpacks to has them: later members replace earlier ones of the same name, links are
// the files that they lead to, hidden names are left out.
type members struct {
	from  string // the archive
	files []file // hidden ones too, as links may lead to them
	at    map[string]int
	links map[string]string // by name, the path in the archive that each leads to
	text  map[string]label  // of files of classKind, by name
	twice string            // a name of two members, of a picture or of what may be a label
	left  tally
}

// memberName is the name that a member is unpacked to; ok is false for one that climbs
// out of the archive, or is its root. Bytes that are no UTF-8 are written as \xNN.
func memberName(name string) (clean string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[i])
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	clean = strings.TrimLeft(b.String(), "/")
	if slices.Contains(strings.Split(clean, "/"), "..") {
		return clean, false
	}
	clean = path.Clean(clean)
	return clean, clean != "." && fs.ValidPath(clean)
}

// isHidden reports whether a name, or a folder above it, begins with a dot.
func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// replace makes room for a member of a name: an earlier one counts no more.
func (m *members) replace(name string) {
	_, link := m.links[name]
	if _, file := m.at[name]; !file && !link {
		return
	}
	m.left.add("named twice in an archive, of which the last counts", 1)
	if ext := strings.ToLower(path.Ext(name)); hasImageName(name) || ext == ".cls" || ext == ".json" {
		m.twice = name
	}
	delete(m.links, name)
}

// add adds a member.
func (m *members) add(f file) error {
	m.replace(f.name)
	return m.put(f)
}

// put sets the file of a name.
func (m *members) put(f file) error {
	i, ok := m.at[f.name]
	if !ok {
		if len(m.files) >= maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		i = len(m.files)
		m.files = append(m.files, file{})
		if m.at == nil {
			m.at = map[string]int{}
		}
		m.at[f.name] = i
	}
	m.files[i] = f
	return nil
}

// link adds a link to a path in the archive.
func (m *members) link(name, to string) error {
	m.replace(name)
	if i, ok := m.at[name]; ok {
		m.files[i] = file{}
		delete(m.at, name)
	}
	if len(m.links) >= maxFiles {
		return fmt.Errorf("more than %d links", maxFiles)
	}
	if m.links == nil {
		m.links = map[string]string{}
	}
	m.links[name] = to
	return nil
}

// symbolic is the path in the archive that a symbolic link leads to. An absolute one
// leads out.
func symbolic(name, to string) string {
	if path.IsAbs(to) {
		return ".."
	}
	return path.Join(path.Dir(name), to)
}

// Errors of links.
var (
	errOutside = errors.New("linked to outside their archive")
	errNothing = errors.New("linked to nothing that is read of their archive")
)

// resolve follows the links on the way to a path.
func (m *members) resolve(p string) (string, error) {
	for range 40 { // as Linux
		if p == ".." || strings.HasPrefix(p, "../") {
			return "", errOutside
		}
		next := ""
		for i := 0; i <= len(p) && next == ""; i++ {
			if i < len(p) && p[i] != '/' {
				continue
			}
			if to, ok := m.links[p[:i]]; ok {
				next = path.Join(to, p[i:])
			}
		}
		if next == "" {
			return p, nil
		}
		p = next
	}
	return "", errNothing
}

// follow adds the files that links lead to, under the names of the links.
func (m *members) follow() error {
	var folders [][2]string // links to what is no file, by name, and where they lead to
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		if isHidden(name) {
			continue
		}
		to, err := m.resolve(m.links[name])
		if err != nil {
			m.left.add(err.Error(), 1)
			continue
		}
		if _, ok := m.at[to]; !ok {
			folders = append(folders, [2]string{name, to})
		} else if err := m.copy(name, to); err != nil {
			return err
		}
	}
	if len(folders) == 0 {
		return nil
	}
	return m.followFolders(folders)
}

// copy adds a member under another name.
func (m *members) copy(name, of string) error {
	f := m.files[m.at[of]]
	f.name = name
	if text, ok := m.text[of]; ok {
		m.text[name] = text
	}
	return m.put(f)
}

// followFolders adds the files of folders that links lead to, each folder once. Those links
// are followed that are in a folder too: to a split, to a class below one and, where there
// is no split, at the top.
func (m *members) followFolders(links [][2]string) error {
	divided := slices.ContainsFunc(m.files, func(f file) bool { return below(f.name) >= 0 }) ||
		slices.ContainsFunc(links, func(l [2]string) bool { return splitOf(path.Base(l[0])) >= 0 })
	wanted := func(name string) bool {
		return splitOf(path.Base(name)) >= 0 || splitOf(path.Base(path.Dir(name))) >= 0 || !divided && strings.Count(name, "/") <= 1
	}
	order := slices.Sorted(maps.Keys(m.at))
	been := map[string]bool{}
	for _, l := range links {
		name, to := l[0], l[1]
		first, _ := slices.BinarySearch(order, to+"/")
		switch {
		case to != "." && (first == len(order) || !strings.HasPrefix(order[first], to+"/")):
			m.left.add(errNothing.Error(), 1)
			continue
		case to == "." || strings.HasPrefix(name+"/", to+"/") || been[to] || !wanted(name):
			m.left.add("linked to folders that are no split and no class, or are there already", 1)
			continue
		}
		been[to] = true
		for _, was := range order[first:] {
			rest, ok := strings.CutPrefix(was, to+"/")
			if !ok {
				break
			}
			if isHidden(rest) {
				continue
			}
			if err := m.copy(name+"/"+rest, was); err != nil {
				return err
			}
		}
	}
	return nil
}

// below is where the name of a file goes on below the folder of a split, −1 for one that
// lies in none.
func below(name string) int {
	for i, start := 0, 0; i < len(name); i++ {
		if name[i] != '/' {
			continue
		}
		if splitOf(name[start:i]) >= 0 {
			return i + 1
		}
		start = i + 1
	}
	return -1
}

// finish follows the links, gives the pictures of a WebDataset their classes and returns
// all files that count.
func (m *members) finish() ([]file, error) {
	if err := m.follow(); err != nil {
		return nil, err
	}
	out := m.files[:0]
	for _, f := range m.files {
		switch {
		case f.name == "":
		case isHidden(f.name):
			m.left.add("hidden in an archive", 1)
		default:
			out = append(out, f)
		}
	}
	return m.webDataset(out)
}

// unread counts a member that is not read, by what it was recognised as.
func (m *members) unread(f file) {
	switch {
	case isHidden(f.name):
		m.left.add("hidden in an archive", 1)
	case f.kind == otherKind:
		m.left.ending(f.name)
	default:
		m.left.add("that are archives within an archive", 1)
	}
}

// annotated reads a text that may say the class of a sample; longer ones are about many
// pictures.
func (m *members) annotated(f file, r io.Reader) error {
	if f.size > 1<<20 {
		m.left.ending(f.name)
		return nil
	}
	b, err := readAll(r, 1<<20)
	if err != nil {
		return err
	}
	if m.text == nil {
		m.text = map[string]label{}
	}
	m.text[f.name] = labelIn(f.name, b)
	return m.add(f)
}
