package arch

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// lattice says what each package of the module may import from the module, and
// which outside modules. A package that is not named here may not exist. Tests
// are free to import what they like.
const lattice = `
internal/rng            : internal/portable
registry                :
internal/safetensors    :
internal/par            :
internal/patience       :
internal/regular        :
internal/spin           :
internal/cpu            :                                  | golang.org/x/sys
internal/portable       :
internal/ladder         :
internal/pool           : internal/cpu
internal/f32            : internal/cpu internal/par internal/portable
internal/conv           : internal/cpu internal/f32 internal/portable
lrschedule              : registry internal/portable
staleness               : registry internal/portable
staleness/staletest     : staleness internal/patience
internal/codec          : internal/cpu internal/f32 internal/rng internal/portable
compress/bits           : internal/codec internal/f32                     | github.com/klauspost/compress
compress                : compress/bits internal/codec internal/f32 internal/rng registry internal/portable
compress/compresstest   : compress internal/f32 internal/patience internal/rng
compress/hook           : compress internal/codec internal/f32
compress/hook/clib      : compress compress/hook
sgd                     : internal/f32 internal/rng registry internal/portable
sgd/lbfgs               : internal/f32
sgd/sgdtest             : sgd internal/rng
sgd/profile             : sgd sgd/nn registry
sgd/nn                  : sgd internal/conv internal/f32 internal/par internal/pool internal/rng registry internal/safetensors internal/portable
sgd/data/text           : sgd internal/regular registry
sgd/data                : sgd sgd/data/text internal/par internal/regular internal/rng registry internal/portable    | github.com/andybalholm/brotli github.com/klauspost/compress golang.org/x/image
sgd/data/datatest       : sgd sgd/data
sgd/external            : sgd sgd/nn internal/f32     | golang.org/x/sys
comm                    :
comm/commtest           : comm internal/patience
comm/local              : comm
comm/emulate            : comm                             | golang.org/x/sys
comm/nemesis            : internal/rng registry
comm/sim                : comm comm/nemesis internal/portable
comm/trace              : comm comm/sim internal/portable
comm/shm                : internal/spin                    | golang.org/x/sys
comm/tcp                : internal/spin                    | golang.org/x/sys
comm/lane               : comm comm/shm comm/tcp
comm/grpcnet            : comm comm/lane comm/shm comm/tcp internal/portable    | google.golang.org/grpc golang.org/x/sys
comm/mpinet             : comm internal/spin
comm/collective         : comm registry internal/portable
comm/pipeline           : registry
comm/outside            : comm comm/collective comm/sim
comm/ps                 : comm staleness registry
sgd/train/record        : sgd comm comm/ps internal/portable    | gonum.org/v1/gonum
sgd/train/checkpoint    : compress internal/f32 internal/safetensors sgd
sgd/train/message       : comm
sgd/train/timing        : compress registry internal/rng internal/portable
sgd/train/wire          : sgd sgd/train/checkpoint sgd/train/timing compress comm comm/collective comm/ps internal/codec internal/f32 internal/rng
sgd/train/compute       : sgd sgd/train/checkpoint sgd/train/record sgd/train/wire internal/f32 internal/par
sgd/train/timing/timingtest : sgd/train/timing internal/rng
sgd/train               : sgd sgd/train/timing sgd/train/record sgd/train/message sgd/train/checkpoint compress staleness staleness/staletest lrschedule comm comm/collective comm/ps internal/f32 internal/par internal/rng registry sgd/train/wire sgd/train/compute
sgd/train/gossip        : sgd/train sgd/train/checkpoint sgd/train/message comm comm/collective compress internal/f32 internal/rng sgd/train/wire
sgd/train/mean          : sgd sgd/train sgd/train/checkpoint sgd/train/compute sgd/train/message sgd/train/record sgd/train/wire compress comm comm/collective internal/f32 lrschedule
sgd/train/replicas      : sgd sgd/train sgd/train/checkpoint compress internal/f32 lrschedule staleness sgd/train/wire
sgd/train/sandblaster   : sgd sgd/lbfgs sgd/train sgd/train/checkpoint sgd/train/message sgd/train/record comm comm/ps
sgd/train/traintest     : sgd sgd/nn sgd/train sgd/train/checkpoint sgd/train/record sgd/train/timing compress staleness lrschedule comm comm/collective comm/grpcnet comm/local comm/nemesis comm/ps comm/sim internal/f32 internal/rng
experiments/figure      : internal/regular                 | gonum.org/v1/plot golang.org/x/image golang.org/x/text github.com/jedib0t/go-pretty
experiments/tensorboard :                                  | google.golang.org/protobuf
experiments/progress    : sgd sgd/train/record internal/portable internal/regular    | github.com/vbauerster/mpb golang.org/x/term
experiments/bench       : sgd sgd/nn sgd/train sgd/train/mean sgd/train/checkpoint sgd/train/record compress staleness lrschedule comm comm/collective comm/grpcnet comm/mpinet internal/f32 internal/par internal/rng experiments/figure    | github.com/klauspost/cpuid golang.org/x/sys
experiments/hardware    : sgd/profile registry internal/regular internal/portable    | go.yaml.in/yaml
experiments/coding      : compress experiments/hardware internal/f32 internal/rng sgd sgd/nn sgd/train/timing internal/regular    | github.com/klauspost/cpuid go.yaml.in/yaml golang.org/x/sys
experiments/config      : comm comm/collective comm/emulate comm/local comm/nemesis comm/ps comm/sim compress experiments/coding experiments/hardware registry lrschedule sgd sgd/data sgd/external sgd/nn sgd/profile sgd/train sgd/train/record sgd/train/gossip sgd/train/mean sgd/train/replicas sgd/train/sandblaster sgd/train/timing staleness internal/regular internal/rng internal/portable    | go.yaml.in/yaml
experiments             : internal/cpu comm comm/grpcnet comm/mpinet comm/nemesis comm/shm comm/sim comm/trace compress experiments/coding experiments/config experiments/progress experiments/tensorboard internal/f32 lrschedule sgd sgd/data sgd/external sgd/train sgd/train/checkpoint sgd/train/record internal/regular sgd/train/compute sgd/train/wire    | github.com/klauspost/cpuid go.yaml.in/yaml gonum.org/v1/gonum github.com/gofrs/flock
experiments/launch      : internal/regular    | go.yaml.in/yaml
experiments/virtual     : comm/outside experiments/config experiments/figure experiments/progress sgd/external
experiments/ask         : comm comm/collective comm/pipeline comm/sim compress experiments experiments/config experiments/figure experiments/hardware experiments/progress experiments/store sgd sgd/profile sgd/train sgd/train/checkpoint sgd/train/record internal/regular sgd/train/wire    | go.yaml.in/yaml github.com/montanaflynn/stats gonum.org/v1/gonum
experiments/stats       :                                  | github.com/montanaflynn/stats gonum.org/v1/gonum
experiments/soak        : comm comm/nemesis comm/sim experiments experiments/config internal/rng sgd sgd/train sgd/train/checkpoint sgd/train/record staleness
experiments/store       : experiments experiments/config experiments/figure experiments/progress experiments/stats registry sgd sgd/train sgd/train/record internal/regular    | github.com/klauspost/compress
experiments/sweep       : comm/collective compress experiments experiments/config experiments/progress experiments/stats experiments/store registry internal/rng sgd sgd/data sgd/train sgd/train/record
experiments/advise      : comm/collective comm/ps compress experiments/ask experiments/coding experiments/config experiments/hardware experiments/stats experiments/store internal/rng sgd sgd/profile sgd/train sgd/train/mean sgd/train/record sgd/train/timing staleness sgd/train/wire    | gonum.org/v1/gonum
experiments/reproduce   : *                                | *
experiments/report      : comm experiments experiments/config experiments/figure experiments/progress experiments/stats experiments/store sgd sgd/train/record
experiments/notebook    :
experiments/mlflow      : experiments experiments/config experiments/store sgd/train/record
experiments/serve       : comm experiments experiments/config experiments/figure experiments/progress experiments/report experiments/store sgd/train/record
notebooks/lab           : compress compress/compresstest experiments experiments/coding experiments/config experiments/figure experiments/report experiments/reproduce experiments/stats experiments/store sgd/data sgd/train/record
experiments/cli         : *                                | *
experiments/cli/elastic :
experiments/cli/faults  :
experiments/cli/jobs    :
experiments/cli/mpi     :
experiments/cli/stops   :
internal/arch           :
internal/program        : internal/patience
internal/program/hosts  : internal/program
.                       : experiments/cli
`

// Only these may look at the wall clock, and only the command line and the
// display at the environment. Chance comes from internal/rng alone.
var (
	clocks = []string{"internal/patience", "internal/program" /* how long tests wait */, "internal/program/hosts" /* likewise */, "internal/par" /* how long idle helpers look around */, "internal/f32" /* which of two kernels takes less */, "comm", "comm/local", "comm/emulate", "comm/grpcnet", "comm/lane", "comm/mpinet", "comm/outside" /* how long processes may compute nothing */, "internal/spin" /* how long a turn of others takes */, "experiments", "experiments/bench", "experiments/cli", "experiments/progress", "experiments/serve", "experiments/coding" /* how fast codecs are */, "experiments/sweep" /* how long jobs take */, "experiments/virtual" /* how long processes may go on */, "experiments/notebook" /* likewise */, "sgd/data", "sgd/external" /* how long a process may say nothing */}
	envs   = []string{"experiments/cli", "internal/program" /* of what tests start */, "internal/program/hosts" /* likewise */, "notebooks/lab" /* the kernel's pipe */, "experiments/progress" /* TERM */}
)

const module = "github.com/gradlab/gradlab"

func root(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

type file struct {
	pkg, path string
	ast       *ast.File
	set       *token.FileSet // of all files
	test      bool
}

// lines is the number of the line at a position.
func (f file) lines(at token.Pos) int { return f.set.Position(at).Line }

func (f file) base() string { return filepath.Base(f.path) }

func sources(t *testing.T) []file {
	t.Helper()
	out, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parsed reads them once for all tests.
var parsed = sync.OnceValues(func() ([]file, error) {
	var out []file
	base, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	err = filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != base && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != base && err == nil { // a module of its own
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(base, filepath.Dir(p))
		out = append(out, file{filepath.ToSlash(rel), p, f, fset, strings.HasSuffix(name, "_test.go")})
		return nil
	})
	return out, err
})

// rule is a row of the lattice.
type rule struct {
	pkg     string
	in, out []string // packages of the module, outside modules; "*" is any
}

func rules(text string) (out []rule) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		pkg, rest, _ := strings.Cut(line, ":")
		in, outside, _ := strings.Cut(rest, "|")
		out = append(out, rule{strings.TrimSpace(pkg), strings.Fields(in), strings.Fields(outside)})
	}
	return out
}

// imports are what each package imports beside the standard library, tests left
// out.
func imports(files []file) map[string][]string {
	out := map[string][]string{}
	for _, f := range files {
		if f.test {
			continue
		}
		list := out[f.pkg]
		for _, im := range f.ast.Imports {
			path := strings.Trim(im.Path.Value, `"`)
			if strings.Contains(strings.Split(path, "/")[0], ".") && !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
		out[f.pkg] = list
	}
	return out
}

// breaches compares imports with the rules: what no rule allows, and what rules say
// of packages or allow that nobody needs any more.
func breaches(all []rule, used map[string][]string) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for _, r := range all {
		if known[r.pkg] {
			say("the lattice has two rows of %s", r.pkg)
		}
		known[r.pkg] = true
		list, there := used[r.pkg]
		if !there {
			say("the lattice has a row of %s, which is no package", r.pkg)
			continue
		}
		needed := map[string]bool{"*": true}
		for _, path := range list {
			own, inside := strings.CutPrefix(path, module+"/")
			if inside {
				needed[own] = true
				if !slices.Contains(r.in, own) && !slices.Contains(r.in, "*") {
					say("%s imports %s, which the lattice does not allow", r.pkg, own)
				}
				continue
			}
			i := slices.IndexFunc(r.out, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
			switch {
			case i >= 0:
				needed["| "+r.out[i]] = true
			case !slices.Contains(r.out, "*"):
				say("%s imports %s, which the lattice does not allow", r.pkg, path)
			}
		}
		for _, own := range r.in {
			if !needed[own] {
				say("the lattice allows %s to import %s, which it does not; take that out of its row", r.pkg, own)
			}
		}
		for _, m := range r.out {
			if m != "*" && !needed["| "+m] {
				say("the lattice allows %s to import module %s, which it does not; take that out of its row", r.pkg, m)
			}
		}
	}
	for pkg := range used {
		if !known[pkg] {
			say("package %s is not in the lattice", pkg)
		}
	}
	slices.Sort(out)
	return out
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, b := range breaches(rules(lattice), imports(sources(t))) {
		t.Error(b)
	}
}

// The program links neither package testing nor what comes with it.
func TestProgramHasNoTests(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir = root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), "testing") {
		t.Error("the program links package testing")
	}
}

// What breaks the rules is found, and so is a rule that has become stale.
func TestBreachesAreFound(t *testing.T) {
	t.Parallel()
	own := func(p string) string { return module + "/" + p }
	for _, c := range []struct {
		lattice string
		used    map[string][]string
		want    string // in the one breach; "": there is none
	}{
		{"a : b | x.org/y", map[string][]string{"a": {own("b"), "x.org/y/v2"}}, ""},
		{"a : * | *", map[string][]string{"a": {own("b"), "x.org/y"}}, ""},
		{"a : b", map[string][]string{"a": {own("b"), own("c")}}, "a imports c,"},
		{"a :", map[string][]string{"a": {"x.org/y"}}, "a imports x.org/y,"},
		{"a :", map[string][]string{"a": nil, "b": nil}, "package b is not in"},
		{"a :\nb :", map[string][]string{"a": nil}, "row of b, which is no package"},
		{"a :\na :", map[string][]string{"a": nil}, "two rows of a"},
		{"a : b c", map[string][]string{"a": {own("b")}}, "to import c, which it does not"},
		{"a : | x.org/y", map[string][]string{"a": nil}, "to import module x.org/y, which it does not"},
	} {
		got := breaches(rules(c.lattice), c.used)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%q: %q, want %q", c.lattice, got, c.want)
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if !f.test {
			documented[f.pkg] = documented[f.pkg] || f.ast.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment that says what it is for", pkg)
		}
	}
}

// withoutExample are public packages that a runnable example would say nothing of.
var withoutExample = map[string]string{
	".":                       "the program",
	"experiments/cli":         "the command line: README and docs are its example",
	"experiments/cli/elastic": "tests alone",
	"experiments/cli/faults":  "tests alone",
	"experiments/cli/jobs":    "tests alone",
	"experiments/cli/mpi":     "tests alone",
	"experiments/cli/stops":   "tests alone",
	"experiments/bench":       "prints what it measures on this machine",
	"compress/hook/clib":      "the C library of package compress/hook, whose example there is",
	"comm/shm":                "memory that grpcnet moves frames through; nobody else imports it",
	"comm/commtest":           "a suite, run by the tests of every net",
	"compress/compresstest":   "a suite; CONTRIBUTING and examples/codec show it",
	"sgd/sgdtest":             "a suite, run by the tests of package sgd",
	"staleness/staletest":     "a suite, run by its own tests",
}

// Who reads a package's documentation finds code that runs, and what it prints.
func TestEveryPackageHasAnExample(t *testing.T) {
	t.Parallel()
	examples, public := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasPrefix(f.pkg, "internal/") {
			continue
		}
		if !f.test {
			public[f.pkg] = true
			continue
		}
		for _, e := range doc.Examples(f.ast) {
			examples[f.pkg] = examples[f.pkg] || e.Output != ""
		}
	}
	for pkg := range public {
		switch _, spared := withoutExample[pkg]; {
		case !spared && !examples[pkg]:
			t.Errorf("package %s has no Example with an output", pkg)
		case spared && examples[pkg]:
			t.Errorf("package %s has an Example and needs no excuse", pkg)
		}
	}
	for pkg := range withoutExample {
		if !public[pkg] {
			t.Errorf("there is no package %s to excuse", pkg)
		}
	}
}

// settable is the one place that reckons with a clock that people can set: there is no
// other one that processes of a machine share on its systems.
const settable = "comm/emulate/clock_other.go"

// F23: no figure is made of the wall clock, which jumps. Instants of package time are
// compared by the monotonic clock in them, which a number of nanoseconds since 1970 or
// Round(0) takes away. On the virtual cluster no package looks at a clock at all.
func TestF23WallClockDecidesNothing(t *testing.T) {
	t.Parallel()
	found := false
	for _, f := range sources(t) {
		if f.test || f.pkg == "internal/arch" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Unix", "UnixNano", "UnixMicro", "UnixMilli", "Round"}, sel.Sel.Name) {
				return true
			}
			ast.Inspect(sel.X, func(n ast.Node) bool {
				if now, ok := n.(*ast.SelectorExpr); ok && now.Sel.Name == "Now" {
					if x, ok := now.X.(*ast.Ident); ok && x.Name == "time" {
						if strings.HasSuffix(filepath.ToSlash(f.path), settable) {
							found = true
						} else {
							t.Errorf("%s:%d reckons with the wall clock: keep the time.Time, or time.Since a start", f.path, f.lines(call.Pos()))
						}
					}
				}
				return true
			})
			return true
		})
	}
	if !found {
		t.Errorf("%s is excused, and reckons with no wall clock", settable)
	}
	for _, pkg := range []string{"comm/sim", "comm/ps", "sgd/train", "staleness"} {
		if slices.Contains(clocks, pkg) {
			t.Errorf("%s may look at a clock", pkg)
		}
	}
}

// wallFiles may take the wall clock's part of an instant: to write it down, to show it, or
// to compare it with one of a file.
var wallFiles = []string{
	"comm/emulate/clock_other.go", // see settable
	"comm/shm/bell_linux.go",      // an instant long ago ends a read
	"experiments/coding/measure.go", "experiments/events.go", "experiments/execute.go", "experiments/extend.go",
	"experiments/lease.go", "experiments/mlflow/export.go", "experiments/record.go", "experiments/recorder.go",
	"experiments/store/field.go", "experiments/store/parquet.go", "experiments/store/store.go",
	"experiments/tensorboard/message.go", "experiments/tensorboard/tensorboard.go",
	"sgd/data/index.go", "sgd/data/resized.go",
}

// F23: leases, deadlines and whatever else waits do not depend on a clock that can be set.
// The methods that take the monotonic clock off an instant, and instants that never had
// one, stand in files that only write them down.
func TestF23LeasesHaveNoWallClock(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || f.pkg == "internal/arch" || strings.Contains("/"+f.path, "/_gen/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if call, is := n.(*ast.CallExpr); is {
				if sel, ok = call.Fun.(*ast.SelectorExpr); !ok {
					return true
				}
				of, _ := sel.X.(*ast.Ident)
				switch sel.Sel.Name {
				case "UTC", "Local": // methods without arguments
					ok = len(call.Args) == 0
				case "Unix", "UnixMicro", "UnixMilli": // or functions of package time
					ok = len(call.Args) == 0 || of != nil && of.Name == "time"
				case "UnixNano", "AddDate", "Gettimeofday":
				default:
					ok = false
				}
			} else {
				ok = ok && sel.Sel.Name == "CLOCK_REALTIME"
			}
			if !ok {
				return true
			}
			file := ""
			for _, allowed := range wallFiles {
				if strings.HasSuffix(filepath.ToSlash(f.path), allowed) {
					file = allowed
				}
			}
			if used[file] = true; file == "" {
				t.Errorf("%s:%d: %s takes the wall clock, which jumps: keep the time.Time, or time.Since a start", f.path, f.lines(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
	for _, file := range wallFiles {
		if !used[file] {
			t.Errorf("%s is excused, and takes no wall clock", file)
		}
	}
}

func TestTimeChanceAndEnvironment(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || f.pkg == "internal/arch" || strings.HasSuffix(f.pkg, "test") {
			continue
		}
		for _, im := range f.ast.Imports {
			if p := strings.Trim(im.Path.Value, `"`); p == "math/rand" || p == "math/rand/v2" {
				t.Errorf("%s imports %s; draws come from internal/rng, by address", f.path, p)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch x.Name + "." + sel.Sel.Name {
			case "time.Now", "time.Sleep", "time.Since", "time.After", "time.NewTimer", "time.NewTicker", "time.AfterFunc":
				if !slices.Contains(clocks, f.pkg) {
					t.Errorf("%s uses %s.%s; only %v may look at the wall clock", f.path, x.Name, sel.Sel.Name, clocks)
				}
			case "os.Getenv", "os.LookupEnv":
				if !slices.Contains(envs, f.pkg) {
					t.Errorf("%s reads the environment; only %v may", f.path, envs)
				}
			}
			return true
		})
	}
}
