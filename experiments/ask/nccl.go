package ask

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// prefixes are what launchers put in front of the lines of a program: srun's label, names
// of containers and hosts, times, and tags in brackets: [1,0]<stdout>:, [default0]:, [0].
var prefixes = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`\[[^\[\]\s]*\](?:<std\w+>)?:? ?`,
	`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s`,
	`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}(?:<std\w+>:)? ?`,
	`\s*\d+: ?`,
	`[A-Za-z][\w.-]*\s*\| ?`,
	`[A-Za-z][\w.-]*\d[\w.-]*: `,
}, "|") + `)`)

// bareLines returns the lines of a log without the prefixes of launchers, of which a line
// has three at most.
func bareLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for range 3 {
			line = line[len(prefixes.FindString(line)):]
		}
		lines[i] = line
	}
	return lines
}

var (
	ncclRank = regexp.MustCompile(`^#?\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?.*\bon\s+(\S+)\s+device`)
	ncclTest = regexp.MustCompile(`\b(all_reduce|all_gather|alltoallv?|broadcast|gather|hypercube|reduce|reduce_scatter|scatter|sendrecv)_perf\b`)
	ncclBad  = regexp.MustCompile(`^#\s*Out of bounds values\s*:\s*(\d+)`)
)

// ncclLog is what a log of nccl-tests has listed up to a line.
type ncclLog struct {
	file   string
	line   int
	test   string      // as in all_reduce_perf; "": the log does not name it
	ranks  []ncclPlace // of the table that follows
	heads  []string    // of the table; none: no table has begun
	table  *ncclTable  // of the rows to come; nil: there were none yet
	points []Measurement
}

// ncclPlace is where a rank runs, and in which group it sums.
type ncclPlace struct{ rank, group, host int }

// ncclTable is how the ranks of a table are laid out.
type ncclTable struct {
	keys   []string
	groups [][]int
	size   int // ranks of a group
}

func (l *ncclLog) errorf(format string, a ...any) error {
	return fmt.Errorf("%s:%d: %w", l.file, l.line, fmt.Errorf(format, a...))
}

// readNCCL reads the tables of all_reduce_perf, each with the ranks that are listed before
// it: the out-of-place time by size, of type float.
func readNCCL(file string, lines []string) ([]Measurement, error) {
	l := &ncclLog{file: file}
	hosts := map[string]int{}
	for n, line := range lines {
		l.line = n + 1
		if err := l.read(line, hosts); err != nil {
			return nil, err
		}
	}
	if len(l.points) == 0 {
		return nil, fmt.Errorf("%s: no rows of type float in a table of all_reduce_perf", file)
	}
	return l.points, nil
}

func (l *ncclLog) read(line string, hosts map[string]int) error {
	if m := ncclRank.FindStringSubmatch(line); m != nil {
		rank, err := strconv.Atoi(m[1])
		group, err2 := strconv.Atoi(cmp.Or(m[2], "0"))
		if err := errors.Join(err, err2); err != nil {
			return l.errorf("%w", err)
		}
		if l.table != nil || slices.ContainsFunc(l.ranks, func(p ncclPlace) bool { return p.rank == rank }) {
			l.ranks, l.table, l.heads = nil, nil, nil // another run begins
		}
		if _, ok := hosts[m[3]]; !ok {
			hosts[m[3]] = len(hosts)
		}
		l.ranks = append(l.ranks, ncclPlace{rank: rank, group: group, host: hosts[m[3]]})
		return nil
	}
	f := strings.Fields(strings.TrimLeft(line, "# "))
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, "# "), "Using devices"):
		l.ranks, l.table, l.heads = nil, nil, nil
	case len(f) > 3 && f[0] == "size" && slices.Contains(f, "algbw"):
		l.heads = f
	case ncclTest.MatchString(line):
		l.test = ncclTest.FindStringSubmatch(line)[1]
	case ncclBad.MatchString(line):
		if bad := ncclBad.FindStringSubmatch(line)[1]; strings.Trim(bad, "0") != "" {
			return l.errorf("%s values of this run are wrong, and so may its times be", bad)
		}
	case len(l.heads) > 0 && !strings.HasPrefix(line, "#") && len(f) > 2 && isCount(f[0]) && isCount(f[1]):
		return l.row(f)
	}
	return nil
}

func isCount(text string) bool { _, err := strconv.ParseUint(text, 10, 64); return err == nil }

// row reads a row of a table.
func (l *ncclLog) row(f []string) error {
	if l.test != "" && l.test != "all_reduce" {
		return l.errorf("this is a table of %s_perf; want one of all_reduce_perf", l.test)
	}
	redop := slices.Index(l.heads, "redop")
	if redop < 0 {
		return l.errorf("the table has no column redop, as that of an all-reduce has; want one of all_reduce_perf")
	}
	if err := l.layout(); err != nil {
		return err
	}
	if len(f) != len(l.heads) {
		return l.errorf("%d values below %d heads: the row is torn, or lies among other output", len(f), len(l.heads))
	}
	if f[redop] == "none" {
		return l.errorf("redop is none: nothing is summed; want a table of all_reduce_perf")
	}
	if at := slices.Index(l.heads, "root"); at >= 0 && f[at] != "-1" {
		return l.errorf("root is %s: an all-reduce has none, which is written as -1; want a table of all_reduce_perf", f[at])
	}
	for i, h := range l.heads {
		if h == "#wrong" && f[i] != "0" && f[i] != "N/A" {
			return l.errorf("#wrong is %s: values of this row are wrong, and so may its times be", f[i])
		}
	}
	size, err := strconv.Atoi(f[0])
	us, err2 := l.number(f, "time")
	algbw, err3 := l.number(f, "algbw")
	busbw, err4 := l.number(f, "busbw")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return l.errorf("%w", err)
	}
	// Both columns are rounded. The first follows from size and time, with more digits.
	if us > 0 {
		algbw = float64(size) / us / 1e3
	}
	n := float64(l.table.size)
	if want := algbw * 2 * (n - 1) / n; math.Abs(busbw-want) > 0.02+0.05*want {
		return l.errorf("busbw is %.3g of algbw, and an all-reduce of %d ranks has 2·(n−1)/n = %.3g: this is another collective, or the list of ranks is another run's", busbw/algbw, l.table.size, 2*(n-1)/n)
	}
	if size < 1 || f[2] != "float" { // all types move alike; one is enough
		return nil
	}
	l.points = append(l.points, Measurement{
		Where: fmt.Sprintf("%s:%d", l.file, l.line), Seconds: us / 1e6, Bytes: size, Keys: slices.Clone(l.table.keys), Groups: l.table.groups,
	})
	return nil
}

// number returns the value below the first head of that name.
func (l *ncclLog) number(f []string, head string) (float64, error) {
	at := slices.Index(l.heads, head)
	if at < 0 {
		return 0, fmt.Errorf("no column %s", head)
	}
	x, err := strconv.ParseFloat(f[at], 64)
	if err != nil {
		return 0, fmt.Errorf("column %s: %q is no number", head, f[at])
	}
	return x, nil
}

// layout decides from the list of ranks how the table's are laid out.
func (l *ncclLog) layout() error {
	if l.table != nil {
		return nil
	}
	if len(l.ranks) < 2 {
		return l.errorf("%d ranks; want the lines that list ranks and their hosts before the table, two at least", len(l.ranks))
	}
	slices.SortFunc(l.ranks, func(a, b ncclPlace) int { return a.rank - b.rank })
	for i, p := range l.ranks {
		if p.rank != i {
			return l.errorf("the list of ranks before this table has %d of them, and not rank %d: it is torn, or of several runs at once", len(l.ranks), i)
		}
	}
	// Ranks of a host beside each other, as the virtual cluster has them.
	slices.SortStableFunc(l.ranks, func(a, b ncclPlace) int { return a.host - b.host })
	hosts, groups, numbers := map[int]int{}, map[int][]int{}, []int{}
	perHost := 0
	for i, p := range l.ranks {
		hosts[p.host]++
		perHost = max(perHost, hosts[p.host])
		if groups[p.group] == nil {
			numbers = append(numbers, p.group)
		}
		groups[p.group] = append(groups[p.group], i)
	}
	t := &ncclTable{keys: []string{fmt.Sprintf("workers=%d", len(l.ranks)), fmt.Sprintf("network.per_host=%d", perHost)}, size: len(l.ranks)}
	if len(numbers) > 1 {
		t.size = len(groups[numbers[0]])
		for _, g := range numbers {
			if n := len(groups[g]); n != t.size || n < 2 {
				return l.errorf("group %d has ranks: %d; want groups of the same number of ranks, two at least, and group %d has %d", g, n, numbers[0], t.size)
			}
			t.groups = append(t.groups, groups[g])
		}
		if perHost*len(hosts) != len(l.ranks) {
			return l.errorf("%d groups on hosts with unequal numbers of ranks; want the same number on each", len(numbers))
		}
	}
	l.table = t
	return nil
}
