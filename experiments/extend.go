package experiments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// extendsFile names the run that the run of a folder goes on from.
const extendsFile = "extends.json"

// Extends is the content of extends.json.
type Extends struct {
	Folder string `json:"folder"`
	Hash   string `json:"config_hash"`
	Step   int    `json:"step"` // of the checkpoint it went on from
}

// keepLastBytes is how large the checkpoint just before a run's end may be, about,
// to be kept without being asked for.
const keepLastBytes = 64 << 20

// keepsLast says whether a run keeps a checkpoint just before its end: it may hold
// residuals of every worker, two moments and the parameters.
func keepsLast(j *train.Job) bool {
	return !j.Weightless && 4*j.Model.Layout().Size()*(j.Workers+3) <= keepLastBytes
}

// extensible lists the keys that say where a run ends.
var extensible = []string{"steps", "epochs", "until", "target", "metric"}

// Extend makes a finished run longer: changes are keys that say where it ends, such
// as steps=2000. The longer run has a folder of its own beside the first one, begins
// at that one's last checkpoint and has its evaluations up to there; it is the run
// that the longer configuration makes. A run that cannot be extended is refused with
// a *config.Error. opt gives Places, Display, Stopping, Args, Join and About.
func Extend(ctx context.Context, folder string, changes []string, opt Options) (*Result, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	was, status, err := readFinished(folder)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	old, run, err := longer(folder, status, changes)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	if opt.Places.Shelf == nil {
		opt.Places.Shelf = &config.Shelf{}
	}
	if opt.Places.Rates, err = RecordedRates(folder); err != nil {
		return nil, err
	}
	job, err := run.Build(opt.Places, Downloads(opt.Display))
	if err != nil {
		return nil, err
	}
	m, err := readManifest(filepath.Join(folder, "checkpoint", "manifest.json"))
	switch {
	case was.PricedFrom != "":
		err = fmt.Errorf("it was not trained but priced from %s; extend that one", was.PricedFrom)
	case errors.Is(err, fs.ErrNotExist):
		err = noCheckpoint(job)
	case err != nil:
	case job.Updates <= max(was.Steps, m.Version):
		err = fmt.Errorf("the run has made %d steps already, and with %s it would have %d; give more, such as steps=%d", max(was.Steps, m.Version), strings.Join(changes, " "), job.Updates, 2*max(was.Steps, m.Version))
	case !lrschedule.IsUnplanned(job.Schedule):
		err = fmt.Errorf("rates of schedule=%s depend on how many steps are planned, so that the beginning of a run of %d steps is not this one; make it anew: gradlab run %s steps=%d",
			run.Config.Schedule, job.Updates, filepath.Join(folder, "config.yaml"), job.Updates)
	case run.Config.Until != config.UntilEnd:
		err = endedBefore(folder, m.Version, run.Config, job.Model.Metrics())
	}
	if err != nil {
		return nil, &config.Error{Err: fmt.Errorf("%s cannot be extended: %w", folder, err)}
	}
	opt.Recipe, opt.Out, opt.Resume = filepath.Base(filepath.Dir(folder)), filepath.Dir(filepath.Dir(folder)), true
	base, hash := opt.base(run), run.Config.Hash()
	found, ok := furthestFolder(base, hash)
	if ok && !found.done && found.damage != nil {
		return nil, found.damage
	}
	if !ok || !found.done && found.step < m.Version {
		if err := seed(base, folder, old, run, m, opt.Recipe); err != nil {
			return nil, fmt.Errorf("run folder: %w", err)
		}
	}
	return Execute(ctx, run, opt)
}

// readFinished reads what a finished run came to.
func readFinished(folder string) (*Result, *Status, error) {
	var r Result
	var s Status
	if err := readJSON(filepath.Join(folder, "status.json"), &s); err != nil {
		return nil, nil, fmt.Errorf("%s is no run folder: %w", folder, err)
	}
	if err := s.Check(folder); err != nil {
		return nil, nil, err
	}
	if s.State != "done" {
		return nil, nil, fmt.Errorf("%s is %s, and only a finished run can be extended; go on with it first: the command that began it, with --resume", folder, s.State)
	}
	if err := readJSON(filepath.Join(folder, "result.json"), &r); err != nil {
		return nil, nil, err
	}
	return &r, &s, nil
}

// longer is the configuration of a run's folder, and the run that changes make of it.
func longer(folder string, s *Status, changes []string) (old config.Config, run config.Run, err error) {
	given := map[string]bool{}
	for _, c := range changes {
		key, _, _ := strings.Cut(c, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !slices.Contains(extensible, key) {
			return old, run, fmt.Errorf("%q: an extension changes nothing but where a run ends; want %s", c, strings.Join(extensible, ", "))
		}
		given[key] = true
	}
	if given["epochs"] && !given["steps"] { // steps would hide them
		changes = append(slices.Clone(changes), "steps=0")
	}
	text, err := regular.ReadFile(filepath.Join(folder, "config.yaml"), regular.Any)
	if err != nil {
		return old, run, err
	}
	if old, err = readConfig(folder); err != nil {
		return old, run, err
	}
	recipe, err := config.ParseRecipe(s.Recipe, "config.yaml", text)
	if err != nil {
		return old, run, err
	}
	runs, err := recipe.Runs(changes, false)
	if err != nil {
		return old, run, err
	}
	if len(runs) != 1 {
		return old, run, fmt.Errorf("%s makes %d runs; give each key one value", strings.Join(changes, " "), len(runs))
	}
	run = runs[0]
	run.Name = s.Run
	for _, key := range extensible { // a name may have them in it
		run.Name = strings.ReplaceAll(run.Name, key+"="+old.Get(key), key+"="+run.Config.Get(key))
	}
	return old, run, nil
}

// noCheckpoint says why a run has none, and how to have one.
func noCheckpoint(j *train.Job) error {
	switch {
	case j.Weightless:
		return errors.New("a run without weights keeps no state to go on from; make the longer one anew")
	case !keepsLast(j):
		return fmt.Errorf("it kept no checkpoint, as that of its end would be large; make it with checkpoint_every=%d, and extend that", max(1, j.Updates/4))
	}
	return fmt.Errorf("it kept no checkpoint: that changes something where nobody waits or frames are under way between steps, and on real clocks workers that gossip may have ended before they hear of it. Make it with checkpoint_every=%d, and extend that", max(1, j.Updates/4))
}

// endedBefore refuses a run that is to end where it came to before a step: at a target that
// was reached, or on a plateau.
func endedBefore(folder string, step int, c config.Config, metrics []sgd.Metric) error {
	goal, err := c.Goal(metrics)
	if err != nil {
		return err
	}
	b, err := regular.ReadFile(filepath.Join(folder, metricsFile), regular.Any)
	if err != nil {
		return err
	}
	var evals []record.Eval
	for _, m := range ParseMetrics(b) {
		e := m.Eval
		if e == nil || e.Step > step || e.Last {
			continue
		}
		evals = append(evals, *e)
		switch {
		case c.Until == config.UntilTarget && goal.Reached(*e):
			return fmt.Errorf("it reached target=%v at step %d; give one that is further, or until=end", c.Target, e.Step)
		case c.IsSettled(goal, evals):
			return fmt.Errorf("it was on a plateau at step %d, %d evaluations behind its best; give until=end", e.Step, config.Plateau)
		}
	}
	return nil
}

// seed makes the folder of a run that goes on from a checkpoint of another one.
func seed(base, from string, old config.Config, run config.Run, m *manifest, recipe string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	f, err := createFolder(base, info.Mode().Perm())
	if err != nil {
		return err
	}
	if err := os.Mkdir(f.file("checkpoint"), info.Mode().Perm()); err != nil {
		return err
	}
	if err := writeFile(f.file("checkpoint", firstFile), nil); err != nil {
		return err
	}
	names := []string{filepath.Join("checkpoint", m.File), metricsFile, recordedRates}
	events, _ := filepath.Glob(filepath.Join(from, "events.out.*"))
	for _, e := range events {
		names = append(names, filepath.Base(e))
	}
	for _, name := range names {
		b, err := regular.ReadFile(filepath.Join(from, name), regular.Any)
		if errors.Is(err, fs.ErrNotExist) && name == recordedRates {
			continue
		}
		if err == nil {
			err = writeFile(f.file(name), b)
		}
		if err != nil {
			return err
		}
	}
	c, hash := run.Config, run.Config.Hash()
	to := *m
	to.Hash, to.Decides = hash, slices.Clone(m.Decides)
	for i, d := range to.Decides {
		if slices.Contains(extensible, d.Name) && d.Value == old.Get(d.Name) {
			to.Decides[i].Value = c.Get(d.Name)
		}
	}
	to.Self = to.sum()
	var s Status
	if err := readJSON(filepath.Join(from, "status.json"), &s); err != nil {
		return err
	}
	if err := writeJSON(f.file(extendsFile), Extends{from, s.Hash, m.Version}); err != nil {
		return err
	}
	if err := writeFile(f.file("config.yaml"), c.YAML()); err != nil {
		return err
	}
	if err := writeJSON(f.file("checkpoint", manifestFile), to); err != nil {
		return err
	}
	_ = os.Remove(f.file("checkpoint", firstFile))
	// Written last: a folder without it is none.
	return writeJSON(f.file("status.json"), Status{Schema: Schema, State: "stopped", Recipe: recipe, Run: run.Name, Hash: hash, Step: m.Version, Started: time.Now().UTC(), Updated: time.Now().UTC()})
}

// extends tells the run that this one goes on from; nil if it began by itself.
func (f *folder) extends() *Extends {
	var e Extends
	if readJSON(f.file(extendsFile), &e) != nil {
		return nil
	}
	return &e
}
