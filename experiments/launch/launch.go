// Package launch writes jobs for schedulers: complete scripts and manifests that start
// the ranks of a run, or the jobs of a sweep, with gradlab join or gradlab sweep.
package launch

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/regular"
)

// Job is what is to be started, and how, whichever scheduler does it.
type Job struct {
	Line    string // the command that asks for it, for the first comment
	Name    string // of the job, as Named gives it
	Program string // gradlab, as the ranks start it
	// Workers and Servers are ranks of one run, a process each. Rank 0 observes it too.
	Workers, Servers int
	// Shares is how many shares a sweep is cut into, a process each; 0: it is one run.
	// Runs are the sweep's.
	Shares, Runs int
	Recipe       string   // name or file, as the ranks find it
	Keys         []string // key=value behind the recipe
	Flags        []string // of gradlab sweep: --repeats=3
	Out          string   // base folder of run folders, on a file system that all share
	DataDir      string   // folder with data sets; "": as the ranks' environment says
	CPUs         int      // cores of a process; 0: as the scheduler gives
	Restarts     int      // how often the whole job is started again
	// Timeout is how long ranks wait for each other.
	Timeout time.Duration
}

// Slurm is what a batch job says beside.
type Slurm struct {
	Nodes   int           // 0: Slurm chooses
	Grace   time.Duration // how long before the end of its time the run is told to stop
	Options []string      // of sbatch, without dashes: time=08:00:00
}

// MPI is what a line of mpirun says beside.
type MPI struct {
	// Hosts in the order of ranks, name or name:slots; none: this machine alone. The
	// first one holds rank 0, which the others call at Port.
	Hosts   []string
	Port    int
	Options []string // of mpirun: --bind-to none
	Carries bool     // MPI carries the frames: ranks need no address and no secret
}

// Kubernetes is what a manifest says beside.
type Kubernetes struct {
	JobSet    bool   // all pods are started again together, by the JobSet controller
	Image     string // in which the program is
	Namespace string // "": that of whoever applies it
	Claim     string // a volume claim with runs and data, which all pods can write
	Memory    string // of a pod: 4Gi; "": no request and no limit
	Text      string // of the recipe, which the pods read; "": Recipe is one that gradlab has
	Token     string // the run's secret, if the manifest is to hold it
}

// Ranks is the number of processes.
func (j *Job) Ranks() int {
	if j.Shares > 0 {
		return j.Shares
	}
	return j.Workers + j.Servers
}

// Who says what the processes are.
func (j *Job) Who() string {
	if j.Shares > 0 {
		return fmt.Sprintf("A sweep of %s, in %s.", plural(j.Runs, "run"), plural(j.Shares, "share"))
	}
	who := plural(j.Workers, "worker")
	if j.Servers > 0 {
		who += " and " + plural(j.Servers, "server")
	}
	return fmt.Sprintf("%s, a process each. That of rank 0 observes too: it evaluates and records.", who)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// command is what each process runs: words of a shell's command line. more goes behind
// the flags.
func (j *Job) command(more ...string) []string {
	var words []string
	if j.DataDir != "" {
		words = append(words, "--data-dir", j.DataDir)
	}
	if j.Shares > 0 {
		words = append(words, "sweep", j.Recipe)
		words = append(words, j.Keys...)
		words = append(words, j.Flags...)
		return append(append(words, "--shard", fmt.Sprintf("auto/%d", j.Shares), "--out", j.Out), more...)
	}
	words = append(words, "join", j.Recipe)
	words = append(words, j.Keys...)
	return append(append(words, "--out", j.Out, "--resume", "--timeout", short(j.Timeout)), more...)
}

// short is 10m for 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote makes a word that a shell reads as it is.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// newline is a word of a command line that has it broken there.
const newline = "\x00"

// line is a command line of a shell, broken where its words say so and at its flags where
// it is long.
func line(indent string, words []string) string {
	var b strings.Builder
	width, broken := 0, true // at the beginning of a line
	for _, w := range words {
		if w == newline || width > 70 && strings.HasPrefix(w, "-") {
			b.WriteString(" \\\n" + indent)
			width, broken = len(indent), true
		}
		if w == newline {
			continue
		}
		if !broken {
			b.WriteByte(' ')
		}
		b.WriteString(Quote(w))
		width, broken = width+len(w)+1, false
	}
	return b.String()
}

var unnamed = regexp.MustCompile(`[^a-z0-9]+`)

// longestName leaves room for what schedulers put behind a name: a label of DNS has 63
// characters.
const longestName = 40

// Named makes a name that every scheduler takes: small letters, digits and dashes.
func Named(text string) string {
	s := strings.Trim(unnamed.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(s) > longestName {
		s = strings.Trim(s[:longestName], "-")
	}
	if s == "" || s[0] < 'a' { // a name of DNS for a service begins with a letter
		s = strings.TrimSuffix("gradlab-"+s, "-")
	}
	return s
}

//go:embed templates
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"line":    line,
	"comment": regular.Line,
	"yaml":    asYAML,
	"entry":   asEntry,
	"indent": func(n int, s string) string {
		by := strings.Repeat(" ", n)
		return by + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+by)
	},
}).ParseFS(files, "templates/*"))

// asYAML writes a text, or a list of texts, on one line. Texts are in double quotes unless
// they are plain in every version of YAML.
func asYAML(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return encode(scalar(v))
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, text := range v {
			n := scalar(text)
			n.Style = yaml.DoubleQuotedStyle
			list.Content = append(list.Content, n)
		}
		return encode(list)
	}
	return "", fmt.Errorf("launch: a %T in a manifest", v)
}

// asEntry writes a key and its text, as lines where all their characters can stand there.
func asEntry(key, text string) (string, error) {
	n := scalar(text)
	if !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
		n.Style = yaml.LiteralStyle
	}
	return encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(key), n}})
}

// plainly matches texts that no reader of YAML takes for a number, a bool, null or a date.
var plainly = regexp.MustCompile(`^[a-z][a-z0-9.-]*$`)

func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	var read yaml.Node
	if plainly.MatchString(text) && yaml.Unmarshal([]byte(text), &read) == nil && read.Content[0].Tag == "!!str" && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, text) {
		n.Style = 0
	}
	return n
}

func encode(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), e.Close()
}

// check refuses what no job can hold.
func (j *Job) check(more ...string) error {
	for _, text := range slices.Concat([]string{j.Line, j.Program, j.Recipe, j.Out, j.DataDir}, j.Keys, j.Flags, more) {
		if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
			return fmt.Errorf("%q is no text in UTF-8, and no job can hold it", text)
		}
	}
	return nil
}

func fill(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Slurm writes a script for sbatch. A run is a step of a task a rank; a sweep is an
// array of jobs.
func (j *Job) Slurm(s Slurm) ([]byte, error) {
	if err := j.check(s.Options...); err != nil {
		return nil, err
	}
	for _, o := range s.Options { // each is a line of comment, which sbatch reads
		if strings.HasPrefix(o, "-") || strings.ContainsFunc(o, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return nil, fmt.Errorf("--sbatch %q: want an option of sbatch without its dashes and control characters, such as time=08:00:00", o)
		}
	}
	return fill("slurm.sh", struct {
		*Job
		Slurm
		Seconds int
		Command []string
	}{j, s, int(s.Grace / time.Second), append([]string{"srun", j.Program}, j.command()...)})
}

// MPI writes a script around mpirun.
func (j *Job) MPI(m MPI) ([]byte, error) {
	if j.Shares > 0 {
		return nil, fmt.Errorf("mpirun starts the ranks of one run; a sweep needs none of it: gradlab sweep … --shard i/n on each host")
	}
	if err := j.check(slices.Concat(m.Hosts, m.Options)...); err != nil {
		return nil, err
	}
	words := []string{"mpirun", "-n", fmt.Sprint(j.Ranks())}
	var more []string
	if len(m.Hosts) == 0 { // mpirun counts a slot a core, and refuses more
		words = append(words, "--host", fmt.Sprint("localhost:", j.Ranks()))
	} else {
		words = append(words, "--host", strings.Join(m.Hosts, ","))
		if first, _, _ := strings.Cut(m.Hosts[0], ":"); !m.Carries {
			more = []string{"--coordinator", fmt.Sprintf("%s:%d", first, m.Port)}
		}
	}
	words = append(words, m.Options...)
	if !m.Carries {
		words = append(words, "-x", "GRADLAB_TOKEN")
	}
	words = append(words, newline, j.Program)
	return fill("mpi.sh", struct {
		*Job
		MPI
		Command []string
	}{j, m, append(words, j.command(more...)...)})
}

// Port is where rank 0 is called in a pod, and where each rank of a manifest listens.
const Port = 29500

// Kubernetes writes a manifest: a Job whose pods have an index each, or a JobSet.
func (j *Job) Kubernetes(k Kubernetes) ([]byte, error) {
	if k.Image == "" {
		return nil, fmt.Errorf("a manifest names the image in which gradlab is; build one from examples/launch/Dockerfile")
	}
	if err := j.check(k.Image, k.Namespace, k.Claim, k.Memory, k.Text, k.Token); err != nil {
		return nil, err
	}
	at := *j
	at.Out, at.DataDir = "/gradlab/runs", ""
	var more []string
	if j.Shares == 0 {
		more = []string{"--listen", fmt.Sprintf(":%d", Port)}
	}
	if k.Text != "" {
		at.Recipe = "/recipe/" + j.Name + ".yaml"
	}
	leader := j.Name + "-0." + j.Name
	if k.JobSet {
		leader = j.Name + "-ranks-0-0." + j.Name
	}
	m := struct {
		*Job
		Kubernetes
		Args   []string
		Leader string
		Port   int
		Tries  int    // pods that may fail
		Wait   int    // times that a probe asks, until ranks stop waiting
		Spec   string // of the Job
	}{j, k, at.command(more...), leader, Port, j.Restarts * j.Ranks(), int(j.Timeout/(5*time.Second)) + 1, ""}
	spec, err := fill("job", m)
	if err != nil {
		return nil, err
	}
	m.Spec = string(spec)
	return fill("kubernetes.yaml", m)
}
