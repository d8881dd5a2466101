package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
)

// decided is one thing that decides a run's result, as it was when a checkpoint
// was written.
type decided struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// decides lists what decides a run's result: what processes compare before they
// begin one together.
func decides(c config.Config, job *train.Job) (out []decided) {
	for _, f := range Identity(c, job) {
		if !config.Observes(f.Name) {
			out = append(out, decided{f.Name, f.Value})
		}
	}
	return out
}

// differs names what has changed since the checkpoint was written. A key that only
// one of the two knows is of another version, which the configuration's hash is for.
func (m *manifest) differs(f *folder) error {
	var list []string
	for _, was := range m.Decides {
		i := slices.IndexFunc(f.decides, func(d decided) bool { return d.Name == was.Name })
		if i >= 0 && f.decides[i].Value != was.Value {
			list = append(list, fmt.Sprintf("%s: %s, now %s", was.Name, was.Value, f.decides[i].Value))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &config.Error{Err: fmt.Errorf("%s was made with something else, and going on would mix the two:\n  %s\nPut it back as it was, or begin a run of its own without --resume", f.path, strings.Join(list, "\n  "))}
}

// candidate is a run folder that holds a configuration.
type candidate struct {
	path    string
	done    bool
	step    int // of its checkpoint; 0: it has none
	started time.Time
	mended  string // what of it could not be read, and was found elsewhere; "": nothing
	damage  error  // why it is not known how far it is; nil: that is known
}

// endsIn reports whether a folder's name ends in an identity, or in one and a number. What is
// before it are keys, which other commands that make the same run need not give.
func endsIn(name, id string) bool {
	if strings.HasSuffix(name, "-"+id) {
		return true
	}
	i := strings.LastIndexByte(name, '-')
	return i > 0 && strings.Trim(name[i+1:], "0123456789") == "" && strings.HasSuffix(name[:i], "-"+id)
}

// furthestFolder finds, of the folders beside base that end in its identity, the one of this
// configuration that is done, or whose checkpoint is furthest; of equal ones the newest. One of which it is
// not known how far it is comes before all that are not done: who goes on with another
// one might lose what it holds.
func furthestFolder(base, hash string) (best candidate, ok bool) {
	dir, name := filepath.Split(base)
	id := name[strings.LastIndexByte(name, '-')+1:]
	entries, _ := os.ReadDir(dir) // some of them may have been removed
	for _, e := range entries {
		if !endsIn(e.Name(), id) {
			continue
		}
		c, mine := lookAt(filepath.Join(dir, e.Name()), hash)
		if mine && (!ok || c.before(best)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// lookAt reads a folder that is named after the configuration of a hash, and says whether
// it is one. Where status.json does not say so, config.yaml or the checkpoint may.
func lookAt(path, hash string) (c candidate, mine bool) {
	var s Status
	c.path = path
	at := filepath.Join(path, "status.json")
	err := readJSON(at, &s)
	if err == nil && s.State == "" && s.Hash == "" {
		err = fmt.Errorf("%s is damaged: it tells no state", at)
	}
	c.step, c.damage = checkpointAt(path)
	if err != nil || s.Hash != hash {
		if errors.Is(err, fs.ErrNotExist) && c.step == 0 && c.damage == nil { // just begun, by somebody else or in vain
			return c, false
		}
		var by string
		if by, c.damage = identified(path, hash, err != nil, c.damage); c.damage == nil && by == "" {
			return c, false
		}
		if err == nil {
			err = fmt.Errorf("%s is damaged: it names another configuration", at)
		}
		c.mended = fmt.Sprintf("%v; by %s it is the folder of this run, and status.json is written anew", err, by)
		s = Status{State: endOf(path)}
	} else if other := s.Check(path); other != nil {
		c.damage, s.State = other, ""
	}
	c.done, c.started = s.State == "done", s.Started
	return c, true
}

// identified says what shows that a folder is one of the configuration of a hash, "" if
// it is none, and what is wrong with its checkpoint or with all that could tell. unread
// says that status.json tells nothing.
func identified(path, hash string, unread bool, damage error) (by string, err error) {
	switch was, err := readConfig(path); {
	case err == nil && was.Hash() == hash:
		return "config.yaml", damage
	case err == nil || !unread:
		return "", nil
	case damage != nil:
		return "", damage
	}
	switch m, err := readManifest(filepath.Join(path, "checkpoint", "manifest.json")); {
	case err == nil && m.Hash == hash:
		return "its checkpoint", nil
	case err == nil:
		return "", nil
	}
	if _, err := os.Stat(filepath.Join(path, metricsFile)); err != nil {
		return "", nil
	}
	return "", fmt.Errorf("%s: neither status.json nor config.yaml can be read, so that nobody knows whether it is a folder of this run; put one of them back, or remove the folder", path)
}

// endOf is the state that a run's result tells; "stopped" without one.
func endOf(path string) string {
	var r Result
	if readJSON(filepath.Join(path, "result.json"), &r) == nil && r.Status != "" {
		return r.Status
	}
	return "stopped"
}

// before says whether c is to be gone on with rather than o.
func (c candidate) before(o candidate) bool {
	switch {
	case c.done != o.done:
		return c.done
	case !c.done && (c.damage != nil) != (o.damage != nil):
		return c.damage != nil
	case !c.done && c.step != o.step:
		return c.step > o.step
	}
	return !c.started.Before(o.started)
}

// begins says where a run begins, and what of earlier ones it leaves aside.
func begins(base string, opt Options, f *folder, m *manifest, found candidate) (notes []string) {
	if f.path == found.path && found.mended != "" {
		notes = append(notes, found.mended)
	}
	if f.passed != nil {
		notes = append(notes, fmt.Sprintf("%v. The older one is taken, as --allow-older says", f.passed))
	}
	switch {
	case m != nil:
		notes = append(notes, fmt.Sprintf("resumed from step %d, %s", m.Version, f.path))
	case opt.Resume && found.path != "":
		notes = append(notes, fmt.Sprintf("there is no checkpoint in %s: it begins at step 0", f.path))
	case opt.Resume && !opt.Implied:
		notes = append(notes, fmt.Sprintf("there is nothing to resume: no run of this configuration lies in %s; it begins at step 0", filepath.Dir(base)))
	case found.step > 0 && !found.done:
		notes = append(notes, fmt.Sprintf("%s holds a checkpoint of this configuration at step %d, which stays as it is: --resume goes on from it", found.path, found.step))
	case found.done && !opt.Again:
		notes = append(notes, fmt.Sprintf("the same run is in %s; trained again (--resume takes it over, --again leaves this line out)", found.path))
	}
	return notes
}

// Folder is where below opt.Out a run is being made, would go on, or is done; "": nowhere.
func Folder(run config.Run, opt Options) (path string, done bool) {
	c, _ := furthestFolder(opt.base(run), run.Config.Hash())
	return c.path, c.done
}
