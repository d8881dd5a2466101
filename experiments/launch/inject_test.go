package launch

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// texts are what a job may be asked to hold: every rune that is not graphic by itself,
// before something that would be a document of its own, and all others together.
func texts() (out []string) {
	var many strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		switch {
		case !utf8.ValidRune(r):
		case !unicode.IsGraphic(r) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r < 0x80:
			out = append(out, fmt.Sprintf("a%c---%ckind: Evil%cx: {{y}} #SBATCH --wrap=evil%c", r, r, r, r))
		default:
			many.WriteRune(r)
		}
		if many.Len() > 64<<10 || r == unicode.MaxRune {
			out = append(out, many.String())
			many.Reset()
		}
	}
	return append(out, "true", "null", "on", "0123", "1e3", "8Gi", "2026-11-28", " a ", "a: b", "#", "&a", "*a", "!a", "|", ">", "%YAML 1.2", "---", "a\n  b\n c\n", "  a\nb", "\n\na", "a\n\n\n")
}

// Whatever stands in a name, a key or a text, a manifest is the documents it is made of,
// and holds that text.
func TestManifestsHoldWhatTheyAreTold(t *testing.T) {
	t.Parallel()
	for i, text := range texts() {
		j := &Job{Line: "gradlab " + Quote(text), Name: "x", Workers: 2, Recipe: text, Keys: []string{"data=" + text}, Flags: []string{text}, Restarts: 3, Timeout: time.Minute}
		k := Kubernetes{Image: text, Namespace: text, Claim: text, Memory: text, Token: text, Text: text}
		places := map[string]int{"namespace": 4, "claimName": 1, "image": 1, "memory": 2, "token": 1, "x.yaml": 1, "args": 1}
		if len(text) > 1000 { // once each is enough
			j.Keys, j.Flags = nil, nil
			k = Kubernetes{Image: "i", Claim: text, Token: "t", Text: text}
			places = map[string]int{"claimName": 1, "x.yaml": 1}
		}
		k.JobSet = i%2 == 0
		b, err := j.Kubernetes(k)
		if err != nil {
			t.Fatalf("%.40q: %v", text, err)
		}
		var kinds []string
		found := map[string]int{}
		for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
			var doc map[string]any
			err := d.Decode(&doc)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%.40q: %v\n%.2000s", text, err, b)
			}
			kinds = append(kinds, fmt.Sprint(doc["kind"]))
			count(doc, text, found)
		}
		want := "[Secret ConfigMap Service Job]"
		if k.JobSet {
			want = "[Secret ConfigMap JobSet]"
		}
		if k.JobSet && places["namespace"] > 0 {
			places["namespace"] = 3
		}
		if fmt.Sprint(kinds) != want {
			t.Fatalf("%.40q: documents %v, want %v", text, kinds, want)
		}
		for key, n := range places {
			if found[key] != n {
				t.Fatalf("%.40q is %d times a %s of the manifest; want %d", text, found[key], key, n)
			}
		}
	}
}

// count counts the values of each key that are text, or hold it.
func count(v any, text string, found map[string]int) {
	for key, x := range v.(map[string]any) {
		switch x := x.(type) {
		case string:
			// Blank lines at the end of a recipe may go.
			if x == text || key == "x.yaml" && strings.TrimRight(x, "\n") == strings.TrimRight(text, "\n") {
				found[key]++
			}
		case map[string]any:
			count(x, text, found)
		case []any:
			for _, y := range x {
				if m, ok := y.(map[string]any); ok {
					count(m, text, found)
				} else if y == "data="+text {
					found[key]++
				}
			}
		}
	}
}

// The first lines of a script are comments, which bash and sbatch read: each is one line,
// of graphic characters, and the options among them are those of the template.
func TestScriptsHoldNoForeignLines(t *testing.T) {
	t.Parallel()
	j := &Job{Line: "gradlab", Name: "x", Program: "gradlab", Workers: 2, Recipe: "r", Out: "runs", Restarts: 3, Timeout: time.Minute}
	write := func(j *Job) (out []string) {
		slurm, err := j.Slurm(Slurm{Grace: time.Minute})
		mpi, err2 := j.MPI(MPI{})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, b := range [][]byte{slurm, mpi} {
			head, _, _ := strings.Cut(string(b), "\n\n")
			out = append(out, head)
		}
		return out
	}
	plain := write(j)
	for _, text := range texts() {
		with := *j
		with.Line, with.Recipe, with.Keys, with.Out = "gradlab "+Quote(text), text, []string{"data=" + text}, text
		for i, head := range write(&with) {
			if strings.Count(head, "\n") != strings.Count(plain[i], "\n") || strings.Count(head, "\n#SBATCH") != strings.Count(plain[i], "\n#SBATCH") {
				t.Fatalf("%.40q makes other lines:\n%.2000s", text, head)
			}
			if at := strings.IndexFunc(head, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 {
				t.Fatalf("%.40q: a control character in the comments: %q", text, head[at:min(len(head), at+20)])
			}
		}
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			if _, err := j.Slurm(Slurm{Options: []string{"comment=" + text}}); err == nil {
				t.Fatalf("--sbatch %q is taken", text)
			}
		}
	}
	for _, text := range []string{"\x00", "\xff"} {
		bad := *j
		bad.Keys = []string{text}
		_, err := bad.Slurm(Slurm{})
		_, err2 := bad.MPI(MPI{})
		_, err3 := bad.Kubernetes(Kubernetes{Image: "i"})
		for _, err := range []error{err, err2, err3} {
			if err == nil || !strings.Contains(err.Error(), "no text in UTF-8") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}
