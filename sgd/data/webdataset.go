package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A shard of a WebDataset is a tar whose members belong together by their keys: KEY.jpg,
// the picture, and KEY.cls or KEY.json, the class. A key ends before the extension of a
// picture or of a label, so that it may hold dots. A picture whose extension is more than
// that, as KEY.seg.png, is no sample.

// label is what a text says of a sample: its class, or why it says none.
type label struct {
	class string
	why   string
}

// labelKeys are the fields of a .json that may be the class, the first of them that there
// is.
var labelKeys = []string{"cls", "label", "class", "wnid"}

// labelIn reads the class out of a .cls, which is nothing else, or a .json.
func labelIn(name string, b []byte) label {
	no := func(format string, args ...any) label { return label{why: fmt.Sprintf(format, args...)} }
	if strings.ToLower(path.Ext(name)) == ".cls" {
		class := strings.TrimSpace(string(bytes.TrimPrefix(b, []byte("\ufeff"))))
		switch {
		case class == "":
			return no("is empty; want the number or the name of a class")
		case strings.ContainsAny(class, " \t\r\n\x00"):
			return no("holds %.40q; want the number or the name of one class, without spaces", class)
		case len(class) > 256:
			return no("holds %d bytes; want the number or the name of a class", len(class))
		case strings.HasPrefix(class, "-") && strings.Trim(class, "-0123456789") == "":
			return no("holds %.40s; want a number from 0 on, or the name of a class", class)
		}
		return label{class: folderName(class)}
	}
	var fields map[string]json.RawMessage
	want := "want an object with the class as " + strings.Join(labelKeys, ", ")
	switch err := json.Unmarshal(b, &fields); {
	case err != nil && json.Valid(b), err == nil && fields == nil:
		return no("holds %.40s; %s", bytes.TrimSpace(b), want)
	case err != nil:
		return no("is no JSON: %v; %s", err, want)
	}
	for _, key := range labelKeys {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return label{class: folderName(text)}
		}
		if v, err := strconv.ParseFloat(string(raw), 64); err == nil && v >= 0 && v <= maxClasses && v == float64(int(v)) {
			return label{class: strconv.Itoa(int(v))}
		}
		return no("has %q: %.40s; want a whole number from 0 on, or a name", key, raw)
	}
	var keys []string
	for k := range fields {
		keys = append(keys, fmt.Sprintf("%.20q", k))
	}
	slices.Sort(keys)
	return no("has no class, but %s; %s", strings.Join(keys[:min(len(keys), named)], ", "), want)
}

// folderName is the name of a class as that of a folder: one class stays one, whatever
// its name holds.
func folderName(class string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(class)
}

// stemOf is a member's name without its last extension, as the keys of samples are.
func stemOf(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// saying is the label of a key, and the file that has it.
type saying struct {
	label
	file string
}

// sayings takes the files of labels out of a list: by key, what they say. A .cls comes
// before a .json that says a class too.
func (m *members) sayings(files []file) (of map[string]saying, others []file) {
	of, others = map[string]saying{}, files[:0:0]
	for _, f := range files {
		if f.kind != classKind {
			others = append(others, f)
			continue
		}
		key, now := stemOf(f.name), saying{m.text[f.name], f.name}
		was, ok := of[key]
		if !ok || now.class != "" && (was.class == "" || strings.ToLower(path.Ext(f.name)) == ".cls") {
			of[key] = now
		}
	}
	return of, others
}

// webDataset gives the pictures of a shard their classes, and returns the files without
// those of labels. In an archive of class folders, and in one of other files, it changes
// nothing.
func (m *members) webDataset(files []file) ([]file, error) {
	said, others := m.sayings(files)
	if len(said) == 0 {
		return others, nil
	}
	picture := map[string]string{} // by key, its picture
	var beside, alone, mute string // pictures: of a longer extension, without a label, with one that says no class
	kept := others[:0]
	for _, f := range others {
		key := stemOf(f.name)
		says, ok := said[key]
		switch {
		case f.kind != imageKind || folderDecides(f.name):
		case says.class != "":
			if other := picture[key]; other != "" {
				return nil, twoOf(key, other, f.name)
			}
			picture[key], f.class = f.name, says.class
		case partOfKey(key, said):
			beside = f.name
			m.left.add("with more of an extension than a sample's picture, as .seg.png", 1)
			continue
		case ok && mute == "":
			mute = f.name
		case !ok && alone == "":
			alone = f.name
		}
		kept = append(kept, f)
	}
	samples := len(picture) > 0
	if samples || beside != "" {
		if m.twice != "" {
			return nil, twoOf(stemOf(m.twice), m.twice, m.twice)
		}
		for key, says := range said {
			if says.class != "" && picture[key] == "" {
				m.left.add("of samples without a picture", 1)
			}
		}
	}
	return kept, unlabelledSample(samples, mute, said[stemOf(mute)], alone, beside)
}

// unlabelledSample refuses a shard by a picture whose label says no class, by one without a
// label where others have one, or by one that is no sample where no other is. A picture in
// a folder, with a .json that says no class, may be of an archive of class folders.
func unlabelledSample(samples bool, mute string, says saying, alone, beside string) error {
	switch {
	case mute != "" && (samples || !strings.Contains(mute, "/") || strings.ToLower(path.Ext(says.file)) == ".cls"):
		return fmt.Errorf("the class of %s: %s %s", mute, path.Base(says.file), says.why)
	case alone != "" && samples:
		return fmt.Errorf("%s has no label: want %s.cls or %s.json, as others have", alone, stemOf(alone), stemOf(alone))
	case beside != "" && !samples && alone == "":
		return fmt.Errorf("%s is the picture of no sample: a sample is KEY.jpg with KEY.cls or KEY.json", beside)
	}
	return nil
}

// folderDecides reports whether a member lies in the folder of a class, below that of a
// split: texts beside it then say nothing of its class.
func folderDecides(name string) bool {
	at := below(name)
	return at >= 0 && strings.Contains(name[at:], "/")
}

// partOfKey reports whether a key goes on where, before a dot, another one that has a
// class ends: 7.seg of 7.
func partOfKey(key string, said map[string]saying) bool {
	for i := len(key) - 1; i >= 0 && key[i] != '/'; i-- {
		if key[i] == '.' && said[key[:i]].class != "" {
			return true
		}
	}
	return false
}

// twoOf refuses two pictures, or two files of one name, of a sample.
func twoOf(key, a, b string) error {
	if a == b {
		return fmt.Errorf("sample %s has two members called %s", key, path.Base(a))
	}
	return fmt.Errorf("sample %s has two pictures, %s and %s; one that is no sample has more of an extension, as %s.seg%s",
		key, path.Base(a), path.Base(b), path.Base(key), path.Ext(b))
}
