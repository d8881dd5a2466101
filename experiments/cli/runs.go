package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/mlflow"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func (e *env) runsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "What has been run: list, compare, diff, rm, export, tag, note",
		Long: `Runs works on the folders that runs leave. Which runs is said by folders, by ids or
their beginnings, and by filters over any field (gradlab runs fields), all of
which must hold; without a folder, everything below --out is meant.

  gradlab runs list codec~topk 'accuracy>0.9' workers=4
  gradlab runs list 'started>2h' state!=done
  gradlab runs compare runs/quickstart --baseline codec=raw
  gradlab runs diff 3ae954 92a766
  gradlab runs export runs/quickstart -o quickstart.parquet

Filters: = and != compare (codec=raw,bf16 is either), ~ and !~ look within the
text, > < >= <= compare numbers, with their units, and instants (2h ago, 2026-11-21).
Quote them for the shell.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see gradlab runs --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	out := c.PersistentFlags().String("out", "runs", "base folder of run folders")
	c.AddCommand(e.runsListCommand(out), e.runsCompareCommand(out), e.runsDiffCommand(out), e.runsRemoveCommand(out), e.runsExportCommand(out), e.runsFieldsCommand(), e.runsTagCommand(out), e.runsNoteCommand(out), e.runsNameCommand(out))
	return c
}

// selected are the runs that arguments name, at least one. Folders that cannot
// be read are told and left out.
func (e *env) selected(out string, args []string) ([]*store.Run, error) {
	runs, err := store.Select(out, args, time.Now())
	if err != nil && len(runs) == 0 {
		return nil, usageError{err}
	}
	if err != nil {
		fmt.Fprintln(e.err, "note:", err)
	}
	if len(runs) == 0 {
		return nil, usageError{fmt.Errorf("no run meets %s; gradlab runs list shows what there is", strings.Join(args, " "))}
	}
	return runs, nil
}

// one finds the run that an argument names: its folder, or its id.
func (e *env) one(out, arg string) (*store.Run, error) {
	if _, err := os.Stat(arg); err != nil && store.IsCondition(arg) {
		return nil, usageError{fmt.Errorf("%s is no run: want a run's folder, or its id from gradlab runs list, first", arg)}
	}
	runs, err := e.selected(out, []string{arg})
	if err != nil {
		return nil, err
	}
	if runs = store.Latest(runs); len(runs) > 1 {
		return nil, usageError{fmt.Errorf("%s names %d runs, such as %s; want one", arg, len(runs), runs[0].Folder)}
	}
	return runs[0], nil
}

// style reads the --format flag of tables.
func style(format string) (string, error) {
	switch format {
	case "table":
		return "box", nil
	case "markdown", "md":
		return "markdown", nil
	case "json":
		return "json", nil
	}
	return "", usageError{fmt.Errorf("format %q: want table, markdown or json", format)}
}

func (e *env) writeJSON(v any) error {
	enc := json.NewEncoder(e.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// fieldsNamed reads a list of fields.
func fieldsNamed(names string, runs []*store.Run) ([]store.Field, error) {
	var out []store.Field
	for _, n := range strings.Split(names, ",") {
		if n = strings.TrimSpace(n); n == "metrics" {
			out = append(out, store.MetricFields(runs)...)
			continue
		}
		f, err := store.FieldNamed(n)
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, f)
	}
	return out, nil
}

func (e *env) runsListCommand(out *string) *cobra.Command {
	var format, columns, sortBy string
	c := &cobra.Command{
		Use:   "list [FOLDER|ID|FILTER …]",
		Short: "Runs, a line each",
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := style(format)
			if err != nil {
				return err
			}
			runs, err := e.selected(*out, args)
			if err != nil {
				return err
			}
			fields, err := fieldsNamed(columns, runs)
			if err != nil {
				return err
			}
			if sortBy != "" {
				if err := sortRuns(runs, sortBy); err != nil {
					return err
				}
			}
			if st == "json" {
				return e.writeJSON(store.Records(runs, store.FieldsOf(runs)))
			}
			if err := store.List(runs, fields).Write(e.out, st, width(e.out)); err != nil {
				return err
			}
			if st == "box" {
				fmt.Fprintln(e.out, count(runs))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&format, "format", "table", "table, markdown or json")
	f.StringVar(&columns, "columns", "id,recipe,run,name,tags,state,metrics,bytes,seconds,started", "fields to show (gradlab runs fields); metrics are those of all models, at the end")
	f.StringVar(&sortBy, "sort", "", "field to sort by, the largest first with a - before it: accuracy, -accuracy (default: when they were started)")
	return c
}

// count words how many runs there are, by state.
func count(runs []*store.Run) string {
	by := map[string]int{}
	for _, r := range runs {
		by[r.State]++
	}
	var parts []string
	for _, s := range []string{store.Done, store.Running, store.Stopped, store.Failed, store.Lost} {
		if by[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", by[s], s))
		}
	}
	word := "runs"
	if len(runs) == 1 {
		word = "run"
	}
	return fmt.Sprintf("%d %s: %s", len(runs), word, strings.Join(parts, ", "))
}

// sortRuns sorts by a field; runs that do not know it come last.
func sortRuns(runs []*store.Run, by string) error {
	name, down := strings.CutPrefix(by, "-")
	f, err := store.FieldNamed(name)
	if err != nil {
		return usageError{err}
	}
	slices.SortStableFunc(runs, func(a, b *store.Run) int {
		c := f.Compare(a, b)
		if down && f.Value(a) != nil && f.Value(b) != nil {
			return -c
		}
		return c
	})
	return nil
}

func (e *env) runsCompareCommand(out *string) *cobra.Command {
	var format, field, baseline string
	var target string
	c := &cobra.Command{
		Use:   "compare [FOLDER|ID|FILTER …]",
		Short: "Configurations beside each other, with intervals and significance",
		Long: `Compare joins runs that differ in their seed alone and sets the configurations
beside each other: the mean with its 95 % interval, the difference from the
baseline, paired by seed, with its interval and the chance of seeing it were there
none (corrected for the number of rows), bytes, time, and how far it was to the
target. Where the number of workers varies, scaling and the laws fitted to it follow.
Only runs that are done count, those that failed as never having reached the target.
Every environment (network, devices, net) has a table and a baseline of its own.

  gradlab runs compare runs/quickstart
  gradlab runs compare workers=4 --baseline codec=raw --field target_seconds --target 0.95`,
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := style(format)
			if err != nil {
				return err
			}
			runs, err := e.selected(*out, args)
			if err != nil {
				return err
			}
			if field == "" {
				field = usualField(runs)
			}
			f, err := store.FieldNamed(field)
			if err == nil && !f.Kind.Numeric() {
				err = fmt.Errorf("field %s is no number", f.Name)
			}
			if err != nil {
				return usageError{err}
			}
			goal, err := goalOf(target, runs)
			if err != nil {
				return err
			}
			all, err := compareFacets(runs, f, baseline, goal)
			if err != nil {
				return err
			}
			for i, c := range all {
				if st == "json" {
					err = e.writeJSON(c)
				} else {
					if i > 0 {
						fmt.Fprintln(e.out)
					}
					err = c.Write(e.out, st, width(e.out))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&format, "format", "table", "table, markdown or json: an object for each environment")
	f.StringVar(&field, "field", "", "what is compared (gradlab runs fields; default: the metric of the runs, such as accuracy; of runs without weights step_seconds)")
	f.StringVar(&baseline, "baseline", "", "filters that name the configuration the others are set against (default: the plainest, such as codec=raw)")
	f.StringVar(&target, "target", "", "what to reach: a `value` of the runs' metric such as 0.95, NAME>=x or NAME<=x of another, such as loss<=1.9, or 0.95best, a share of the best (default: that of the runs)")
	return c
}

// usualField is what runs are compared by: a metric, where anything is learned.
func usualField(runs []*store.Run) string {
	if slices.ContainsFunc(runs, func(r *store.Run) bool { return !r.Config.Weightless }) {
		return store.CommonTarget(runs).Metric.Column()
	}
	return "step_seconds"
}

// compareFacets compares the configurations of each environment by themselves.
func compareFacets(runs []*store.Run, f store.Field, baseline string, target record.Goal) ([]*store.Comparison, error) {
	if !slices.ContainsFunc(runs, (*store.Run).IsDone) {
		return nil, usageError{errors.New("none of these runs is done; gradlab runs list shows their state")}
	}
	var out []*store.Comparison
	var named error
	found := baseline == ""
	for _, facet := range store.Facets(runs) {
		groups := store.Groups(facet.Runs)
		store.Arrange(groups)
		base, err := baselineOf(groups, baseline)
		if err != nil {
			named = err
			if base, err = baselineOf(groups, ""); err != nil {
				return nil, err
			}
		} else {
			found = true
		}
		c, err := store.Compare(groups, base, f, target)
		if err != nil {
			return nil, err
		}
		c.Facet = facet.Label
		out = append(out, c)
	}
	if !found {
		return nil, named
	}
	return out, nil
}

// baselineOf finds the group that filters name. If they are empty it is the one
// with the most defaults, such as codec raw, among the words in which groups
// differ, of those that are done; of equals the first.
func baselineOf(groups []*store.Group, filters string) (int, error) {
	if filters == "" {
		best, most := 0, -1
		for i, g := range groups {
			if n := plainness(g); n > most && slices.ContainsFunc(g.Runs, (*store.Run).IsDone) {
				best, most = i, n
			}
		}
		return best, nil
	}
	var conditions []store.Condition
	for _, s := range strings.Fields(filters) {
		c, err := store.ParseCondition(s, time.Now())
		if err != nil {
			return 0, usageError{err}
		}
		conditions = append(conditions, c)
	}
	found := -1
	for i, g := range groups {
		if len(store.Filter(g.Runs, conditions...)) == 0 {
			continue
		}
		if found >= 0 {
			return 0, usageError{fmt.Errorf("baseline %q names several configurations, %q and %q among them; add filters, as in --baseline 'codec=raw workers=4'", filters, groups[found].Label, g.Label)}
		}
		found = i
	}
	if found < 0 {
		return 0, usageError{fmt.Errorf("baseline %q names none of these configurations", filters)}
	}
	return found, nil
}

// plainness counts the defaults among the words in which a group differs.
func plainness(g *store.Group) (n int) {
	def := config.Default()
	for name, value := range g.Keys {
		if f, err := store.FieldNamed(name); err == nil && !f.Kind.Numeric() && value == def.Get(name) {
			n++
		}
	}
	return n
}

func (e *env) runsDiffCommand(out *string) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "diff RUN RUN",
		Short: "What two runs differ in: configuration, machine, outcome",
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := style(format)
			if err != nil {
				return err
			}
			if len(args) != 2 {
				return usageError{errors.New("diff wants two runs, by folder or id")}
			}
			var two []*store.Run
			for _, a := range args {
				r, err := e.one(*out, a)
				if err != nil {
					return err
				}
				two = append(two, r)
			}
			t := store.Diff(two[0], two[1])
			if st == "json" {
				var lines []map[string]string
				for _, r := range t.Rows {
					lines = append(lines, map[string]string{"field": r[0], "a": r[1], "b": r[2]})
				}
				return e.writeJSON(lines)
			}
			return t.Write(e.out, st, width(e.out))
		},
	}
	c.Flags().StringVar(&format, "format", "table", "table, markdown or json")
	return c
}

func (e *env) runsRemoveCommand(out *string) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "rm FOLDER|ID|FILTER …",
		Short: "Remove runs; says which, and does it with --yes",
		Long: `Rm removes run folders, but for those of runs that are going on. A run of another host
whose last heartbeat seems old is watched for 20 seconds: that host's clock may be off.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("rm wants to be told which runs: folders, ids or filters, such as state=failed")}
			}
			runs, err := e.selected(*out, args)
			if err != nil {
				return err
			}
			busy := make([]bool, len(runs))
			var all sync.WaitGroup
			for i, r := range runs {
				all.Go(func() { busy[i] = experiments.Busy(r.Folder) })
			}
			all.Wait()
			var errs []error
			for i, r := range runs {
				switch {
				case busy[i]:
					errs = append(errs, fmt.Errorf("%s is running; stop it first", r.Folder))
				case !yes:
					fmt.Fprintln(e.out, "would remove", r.Folder)
				default:
					if err := os.RemoveAll(r.Folder); err != nil {
						errs = append(errs, err)
						continue
					}
					fmt.Fprintln(e.out, "removed", r.Folder)
				}
			}
			if !yes && len(errs) < len(runs) {
				fmt.Fprintln(e.out, "nothing is removed yet: give --yes as well")
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

func (e *env) runsFieldsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "fields",
		Short: "What filters, columns and exports can name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
			for _, f := range store.Fields() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Kind, f.Doc)
			}
			return w.Flush()
		},
	}
}

// toMLflow copies runs to a tracking server.
func (e *env) toMLflow(ctx context.Context, address, experiment string, noFiles bool, runs []*store.Run) error {
	c := &mlflow.Client{URL: address, Token: os.Getenv("MLFLOW_TRACKING_TOKEN"), User: os.Getenv("MLFLOW_TRACKING_USERNAME"), Password: os.Getenv("MLFLOW_TRACKING_PASSWORD")}
	c.NoArtifacts = noFiles
	told := map[string]bool{}
	c.Note = func(text string) {
		if !told[text] {
			fmt.Fprintln(e.err, "note:", text)
		}
		told[text] = true
	}
	counts, err := c.ExportAll(ctx, experiment, runs)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.err, "%d exported to %s, %d were there, %d not finished\n", counts[mlflow.Exported], address, counts[mlflow.There], counts[mlflow.Going])
	return nil
}

func (e *env) runsExportCommand(out *string) *cobra.Command {
	var file, format, rows, address, experiment string
	var noFiles bool
	c := &cobra.Command{
		Use:   "export [FOLDER|ID|FILTER …]",
		Short: "Runs as CSV or Parquet, for pandas and others, or to MLflow",
		Long: `Export writes runs as a table: a row a run with every field, or with --rows evals a
row an evaluation, with --rows progress a row a progress report, each with its run's
id and configuration.

  gradlab runs export -o runs.csv
  gradlab runs export runs/quickstart --rows evals -o evals.parquet

Numbers are bare (seconds, bytes); what a run does not know is empty.

With --mlflow finished runs go to an MLflow tracking server instead: configuration,
curves, result, and the files of their folders as artifacts. Repeats hang below a
run with their means. Those it has are left alone, so the same command may be given
again.

  gradlab runs export runs/quickstart --mlflow http://localhost:5000

MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, say
who asks, where the server wants to know.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if address != "" {
				if file != "" || format != "" {
					return usageError{errors.New("--mlflow writes no file; leave -o and --format out")}
				}
				runs, err := e.selected(*out, args)
				if err != nil {
					return err
				}
				return e.toMLflow(cmd.Context(), address, experiment, noFiles, runs)
			}
			if err := formatOf(file, &format); err != nil {
				return usageError{err}
			}
			write, ok := map[string]func(*os.File, *store.Frame) error{
				"csv":     func(f *os.File, t *store.Frame) error { return t.WriteCSV(f) },
				"parquet": func(f *os.File, t *store.Frame) error { return t.WriteParquet(f) },
			}[format]
			if !ok {
				return usageError{fmt.Errorf("format %q: want csv or parquet", format)}
			}
			runs, err := e.selected(*out, args)
			if err != nil {
				return err
			}
			frame, err := store.Export(runs, rows)
			if err != nil {
				return usageError{err}
			}
			if file == "" || file == "-" {
				if format == "parquet" {
					return usageError{errors.New("parquet goes to a file; give -o runs.parquet")}
				}
				return frame.WriteCSV(e.out)
			}
			f, err := os.Create(file)
			if err != nil {
				return err
			}
			if err := errors.Join(write(f, frame), f.Close()); err != nil {
				return err
			}
			fmt.Fprintf(e.err, "wrote %s: %d rows, %d columns\n", file, frame.Rows, len(frame.Columns))
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&file, "output", "o", "", "file to write; without one, CSV goes to the output")
	f.StringVar(&format, "format", "", "csv or parquet (default: by the ending of the file's name, which it may not contradict)")
	f.StringVar(&rows, "rows", "runs", "a row each: runs, evals or progress")
	f.StringVar(&address, "mlflow", "", "address of an MLflow tracking server to copy finished runs to")
	f.BoolVar(&noFiles, "no-artifacts", false, "with --mlflow: leave the files of run folders here")
	f.StringVar(&experiment, "experiment", "", "MLflow's experiment (default: the runs' recipe)")
	return c
}

// formatOf sets the format of an export by the ending of its file. A file without one,
// such as /dev/stdout, has the format that is asked for, or CSV.
func formatOf(file string, format *string) error {
	ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))
	switch {
	case file == "-" || ending == "":
		*format = cmp.Or(*format, "csv")
	case ending != "csv" && ending != "parquet":
		return fmt.Errorf("-o %s: runs are exported as .csv or .parquet, not .%s; gradlab runs list --format json writes JSON", file, ending)
	case *format != "" && *format != ending:
		return fmt.Errorf("-o %s is no name for --format %s; leave one of them out", file, *format)
	default:
		*format = ending
	}
	return nil
}

// goalOf reads a flag --target, which must be of a metric of the runs; none: there is none.
func goalOf(text string, runs []*store.Run) (record.Goal, error) {
	if text == "" {
		return record.Goal{}, nil
	}
	g, err := record.ParseGoal(text)
	if err == nil && len(store.MetricsOf(runs)) > 0 {
		_, err = store.TargetOf(g, runs)
	}
	if err != nil {
		return g, usageError{fmt.Errorf("--target: %w", err)}
	}
	return g, nil
}
