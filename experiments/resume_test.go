package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// everyWay lists what can be run on the virtual cluster: every mode with every
// policy that it takes, every corrector, and what modes have beside.
func everyWay(t *testing.T) (ways [][]string) {
	t.Helper()
	recipe := mustParse(t, small)
	add := func(over ...string) {
		runs, err := recipe.Runs(over, false)
		if err == nil {
			_, err = runs[0].Build(config.Places{}, nil)
		}
		if err == nil {
			ways = append(ways, over)
		}
	}
	for _, mode := range train.Modes.Names() {
		for _, policy := range staleness.Policies.Names() {
			add("mode="+mode, "policy="+policy)
		}
	}
	for _, corrector := range staleness.Correctors.Names() {
		add("policy=ssp", "corrector="+corrector, "servers=2")
	}
	for _, over := range [][]string{
		{"mode=sgp(late=3)", "graph=one_peer"}, {"mode=reduce", "overlap=buckets(bytes=100)"}, {"mode=reduce", "overlap=priority(bytes=100,partition=500)"},
		{"overlap=buckets", "servers=2"}, {"overlap=buckets(bytes=500)", "policy=ssp"}, {"mode=server(barrier=true)", "servers=2"},
		{"mode=easgd(tau=4)", "policy=asp", "optimizer=sgd"}, {"mode=rudra(tree=2,threads=true)", "policy=asp"}, {"mode=rudra(tree=2)", "policy=softsync(n=2)", "codec=feedback(topk(keep=0.1))"},
		{"policy=asp", "down_codec=topk(keep=0.2)", "codec=feedback(sign)", "servers=2"}, {"policy=ssp", "observe=gap", "servers=2"},
		{"mode=downpour(n_fetch=3,n_push=2)", "policy=asp", "overlap=buckets"}, {"mode=localsgd(h=4)", "codec=feedback(topk(keep=0.2))"}, {"mode=sandblaster(portions=6)"},
		{"down_codec=fp16"}, {"mode=server", "down_codec=topk(keep=0.2)", "codec=qsgd"}, {"policy=asp", "constants.apply=10MB/s", "device.codec=50MB/s"},
	} {
		add(over...)
	}
	return ways
}

// row is a result as a table tells it, without what no two runs have in common,
// and with or without what it says of the virtual clock.
func row(t *testing.T, r *Result, clock bool) map[string]any {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"wall_seconds", "folder", "network", "report_bytes"} {
		delete(m, k)
	}
	if !clock {
		for _, k := range []string{"virtual_seconds", "update_rate", "target_seconds", "age_seconds", "waited_for"} {
			delete(m, k)
		}
	}
	for i, e := range r.Evals {
		if !clock {
			e.Seconds = 0
			if !e.Last { // what was under way has come already
				e.BytesDown = 0
			}
		}
		m[fmt.Sprintf("eval %d", i)] = fmt.Sprintf("%+v", e)
	}
	return m
}

// A run on the virtual cluster that is stopped, as often as one likes, ends with
// every figure of one that was not: bits, bytes, counts and clocks.
func TestStopsChangeNothing(t *testing.T) {
	patience.Virtual(t)
	for i, way := range everyWay(t) {
		if !patience.Long && i%8 != 0 {
			continue
		}
		for _, every := range []int{0, 12} {
			over := append(append([]string{}, way...), fmt.Sprint("checkpoint_every=", every), "device.law=lognormal(sigma=0.3)", "epochs=0", "target=0.2")
			if strings.Contains(way[0], "sandblaster") {
				over = append(over, "steps=30", "eval_every=7") // a step is a pass over the data
			} else {
				over = append(over, "steps=80", "eval_every=7")
			}
			t.Run(strings.Join(over[:len(way)+1], " "), func(t *testing.T) {
				t.Parallel()
				run := mustRuns(t, small, over...)[0]
				job, err := run.Build(config.Places{}, nil)
				if err != nil {
					t.Skip(err)
				}
				clock := job.ClockGoesOn(job.StopRule(true, job.Updates-1))
				want := row(t, mustExecute(t, over...), clock)
				dir, draw := t.TempDir(), rng.New(uint64(i), "stop").With(uint64(every))
				legs := 0
				var r *Result
				for err := ErrStopped; errors.Is(err, ErrStopped); legs++ {
					polls, after := 0, 5+draw.IntN(uint64(legs), 120)
					r, err = Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: legs > 0, Stopping: func() bool {
						polls++
						return polls > after && legs < 3
					}})
					if err != nil && !errors.Is(err, ErrStopped) {
						t.Fatal(err)
					}
				}
				got := row(t, r, clock)
				for k := range want {
					if a, b := fmt.Sprint(got[k]), fmt.Sprint(want[k]); a != b {
						t.Errorf("%s after %d stops: %s, without: %s", k, legs-1, a, b)
					}
				}
			})
		}
	}
}

// Checkpoints in time change nothing, however often they come, and a run that was
// killed behind any of them goes on with every figure of one that was not.
func TestCheckpointsInTime(t *testing.T) {
	patience.Virtual(t)
	for i, way := range everyWay(t) {
		if !patience.Long && i%8 != 0 {
			continue
		}
		over := append(append([]string{}, way...), "device.law=lognormal(sigma=0.3)", "epochs=0", "target=0.2", "steps=40", "eval_every=7")
		if strings.Contains(way[0], "sandblaster") {
			continue // it comes to rest at marks only
		}
		t.Run(strings.Join(way, " "), func(t *testing.T) {
			t.Parallel()
			want := row(t, mustExecute(t, over...), true)
			run, draw := mustRuns(t, small, over...)[0], rng.New(uint64(i), "due")
			job, err := run.Build(config.Places{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			rule := job.StopRule(true, 0)
			keeps, kept := rule == train.StopAtStep && job.ClockGoesOn(rule), 0
			for leg := range uint64(3) {
				if leg > 0 && !keeps {
					break
				}
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				polls, done := 0, 0
				opt := Options{Recipe: "test", Out: dir, due: func() bool { polls++; return draw.With(leg).IntN(uint64(polls), 9) == 0 },
					Watch: func(n, _ int) {
						if done = n; leg > 0 && n >= 15+10*int(leg) {
							cancel()
						}
					}}
				r, err := Execute(ctx, run, opt)
				cancel()
				if _, err := os.Stat(filepath.Join(filepath.Dir(mustGlob(t, dir)), "checkpoint", "manifest.json")); err == nil {
					kept++
				}
				if leg > 0 {
					if err == nil {
						t.Fatalf("it was killed at update %d, and ended", done)
					}
					r, err = Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: true})
				}
				if err != nil {
					t.Fatal(err)
				}
				got := row(t, r, true)
				for k := range want {
					if a, b := fmt.Sprint(got[k]), fmt.Sprint(want[k]); a != b {
						t.Errorf("leg %d: %s: %s, without: %s", leg, k, a, b)
					}
				}
			}
			if keeps != (kept > 0) {
				t.Errorf("%d of 3 runs kept checkpoints; a run in step: %v", kept, keeps)
			}
		})
	}
}

// On a real clock every mode keeps checkpoints in time, and those in step end with the
// bits of a run without.
func TestCheckpointsInTimeOnRealClocks(t *testing.T) {
	t.Parallel()
	for i, way := range append(everyWay(t), []string{"mode=hogwild"}) {
		if !patience.Long && i%8 != 0 {
			continue
		}
		over := append(append([]string{}, way...), "net=local", "epochs=0", "eval_every=7")
		if strings.Contains(way[0], "sandblaster") {
			over = append(over, "steps=10")
		} else {
			over = append(over, "steps=40")
		}
		runs, err := mustParse(t, small).Runs(over, false)
		if err != nil || strings.Contains(strings.Join(way, " "), "device.") {
			continue // the virtual cluster's only
		}
		t.Run(strings.Join(way, " "), func(t *testing.T) {
			job, err := runs[0].Build(config.Places{}, nil)
			if err != nil {
				t.Skip(err)
			}
			var polls atomic.Uint64
			dir := t.TempDir()
			r, err := Execute(t.Context(), runs[0], Options{Recipe: "test", Out: dir, due: func() bool { n := polls.Add(1); return n%3 == 0 && n <= 30 }})
			if err != nil {
				t.Fatal(err)
			}
			if job.StopRule(false, 0) == train.StopAtStep && r.ParamsSHA256 != mustExecute(t, over...).ParamsSHA256 {
				t.Error("checkpoints change the bits of a run in step")
			}
			_, err = os.Stat(filepath.Join(filepath.Dir(mustGlob(t, dir)), "checkpoint", "manifest.json"))
			// Workers that gossip may have made all their steps before the observer calls.
			mode := strings.TrimPrefix(strings.Split(way[0], "(")[0], "mode=")
			heard := job.Served() || slices.Contains([]string{"reduce", "gather", "localsgd"}, mode)
			if rudra := strings.Contains(way[0], "rudra"); heard && rudra == (err == nil) {
				t.Errorf("a checkpoint: %v", err)
			}
		})
	}
}

func mustParse(t *testing.T, text string) *config.Recipe {
	t.Helper()
	r, err := config.ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustGlob(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "test", "*", "status.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// stopAfter says stop from the n-th time on that it is asked.
func stopAfter(n int) func() bool {
	var asked atomic.Int64 // workers ask between micro-batches, several at once
	return func() bool { return asked.Add(1) > int64(n) }
}

// pictures is a folder of images of 8×8: 2 classes, n of each to learn from, all of them unlike.
func pictures(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for class, grey := range []uint8{40, 200} {
		for i := range n + 1 {
			img := image.NewGray(image.Rect(0, 0, 8, 8))
			for k := range img.Pix {
				img.SetGray(k%8, k/8, color.Gray{Y: grey + uint8(31*i+k*k*(7+2*class+i))})
			}
			var b bytes.Buffer
			if err := png.Encode(&b, img); err != nil {
				t.Fatal(err)
			}
			part := "train"
			if i == n {
				part = "val"
			}
			path := filepath.Join(dir, "imagenet", part, fmt.Sprint("class", class), fmt.Sprintf("%d.png", i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// A run does not go on with other data than it began with, and says what differs.
// A checkpoint of a version that did not note its data goes on, and that is told.
func TestResumeKnowsItsData(t *testing.T) {
	t.Parallel()
	run := mustRuns(t, small, "data=imagenet(size=8)", "batch=4", "eval_every=0")[0]
	was, now, dir := pictures(t, 12), pictures(t, 13), t.TempDir()
	r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Places: config.Places{Dir: was}, Stopping: stopAfter(4)})
	if !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(r.Folder, "checkpoint", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	resume := func(data string) (string, error) {
		var says bytes.Buffer
		d := progress.New(&says, progress.Plain)
		_, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: true, Places: config.Places{Dir: data}, Display: d, Stopping: stopAfter(4)})
		d.Close()
		return says.String(), err
	}
	_, err = resume(now)
	var config *config.Error
	if !errors.As(err, &config) || strings.Count(err.Error(), "data set: imagenet") != 1 || strings.Count(err.Error(), ", now imagenet") != 1 {
		t.Errorf("with other data: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(r.Folder, "checkpoint", "manifest.json")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the refusal has changed the checkpoint: %v", err)
	}
	if says, err := resume(was); !errors.Is(err, ErrStopped) || !strings.Contains(says, "resumed from step") {
		t.Errorf("with the same data: %v\n%s", err, says)
	}
}

// Whatever is typed again after a stop, the furthest checkpoint is gone on from, and
// it is said where a run begins.
func TestRestartByHabit(t *testing.T) {
	t.Parallel()
	run, dir := mustRuns(t, small, "steps=60")[0], t.TempDir()
	command := func(resume bool, stop func() bool) (*Result, string) {
		var says bytes.Buffer
		d := progress.New(&says, progress.Plain)
		r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: resume, Display: d, Stopping: stop})
		d.Close()
		if err != nil && !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		return r, says.String()
	}
	wants := func(says, what string) {
		t.Helper()
		if !strings.Contains(says, what) {
			t.Errorf("it does not say %q:\n%s", what, says)
		}
	}
	first, says := command(true, stopAfter(60))
	wants(says, "there is nothing to resume")
	second, says := command(false, stopAfter(5)) // from habit, without --resume
	wants(says, fmt.Sprintf("%s holds a checkpoint of this configuration at step %d", first.Folder, first.Steps))
	if second.Folder == first.Folder || second.Steps >= first.Steps {
		t.Fatalf("%+v after %+v", second, first)
	}
	last, says := command(true, nil)
	wants(says, fmt.Sprintf("resumed from step %d, %s", first.Steps, first.Folder))
	if last.Folder != first.Folder || last.Status != "done" {
		t.Errorf("went on in %s, not in %s", last.Folder, first.Folder)
	}
	again, _ := command(true, nil)
	if again.Folder != last.Folder || again.ParamsSHA256 != last.ParamsSHA256 {
		t.Errorf("a run that is done is made again in %s", again.Folder)
	}
}

// Marks that lie behind the end of a run are told.
func TestMarksBehindTheEnd(t *testing.T) {
	t.Parallel()
	for every, told := range map[int]bool{6: false, 12: true, 500: true} {
		var says bytes.Buffer
		d := progress.New(&says, progress.Plain)
		if _, err := Execute(t.Context(), mustRuns(t, small, fmt.Sprint("checkpoint_every=", every))[0], Options{Recipe: "test", Out: t.TempDir(), Display: d}); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if got := strings.Contains(says.String(), fmt.Sprintf("checkpoint_every=%d is more than", every)); got != told {
			t.Errorf("checkpoint_every=%d of 12 steps: told %v, want %v\n%s", every, got, told, says.String())
		}
	}
}

// A stop ends all runs of a recipe, also one that is asked for while a run ends.
func TestStopEndsAllRuns(t *testing.T) {
	t.Parallel()
	runs := append(mustRuns(t, small, "seed=1"), mustRuns(t, small, "seed=2")...)
	for name, over := range map[string]func(dir string) Options{
		"in the first run": func(dir string) Options { return Options{Stopping: stopAfter(5)} },
		"through its folder": func(dir string) Options {
			return Options{Watch: func(done, total int) {
				if found, _ := filepath.Glob(filepath.Join(dir, "test", "*", "status.json")); done == 1 {
					_ = os.WriteFile(filepath.Join(filepath.Dir(found[0]), stopFile), nil, 0o644)
				}
			}}
		},
		"at its last step": func(dir string) Options {
			over := false
			return Options{Watch: func(done, total int) { over = over || done == total }, Stopping: func() bool { return over }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opt := over(dir)
			opt.Recipe, opt.Out = "test", dir
			_, err := ExecuteAll(t.Context(), runs, opt)
			if !errors.Is(err, ErrStopped) {
				t.Errorf("it ends with %v", err)
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "test", "*")); len(found) != 1 {
				t.Errorf("%d runs have been begun", len(found))
			}
		})
	}
}

// A rank that waits for others heeds a stop, and what it leaves is no run that is
// running.
func TestJoinHeedsAStopWhileItWaits(t *testing.T) {
	t.Parallel()
	run, dir := mustRuns(t, small, "net=grpc", "mode=reduce")[0], t.TempDir()
	o := JoinOptions{Identity: Who{Rank: 0, World: 3, Coordinator: "127.0.0.1:0"}, Token: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", Timeout: time.Hour, Stopping: stopAfter(2)}
	_, err := Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Lead: &o})
	if !errors.Is(err, ErrStopped) {
		t.Errorf("the coordinator ends with %v", err)
	}
	var status Status
	found, _ := filepath.Glob(filepath.Join(dir, "test", "*", "status.json"))
	if len(found) != 1 || readJSON(found[0], &status) != nil || status.State != "stopped" {
		t.Errorf("its folder says %+v", status)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes calls and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o = JoinOptions{Identity: Who{Rank: 1, World: 3, Coordinator: l.Addr().String()}, Token: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", Timeout: time.Hour, Stopping: stopAfter(2)}
	if err := Join(t.Context(), run, o); !errors.Is(err, ErrStopped) {
		t.Errorf("a rank that joins ends with %v", err)
	}
}

// Who resumes as a matter of course, such as a sweep, is not told that a run is new.
func TestImpliedResumeSaysNothing(t *testing.T) {
	t.Parallel()
	run := mustRuns(t, small, "steps=4")[0]
	for _, implied := range []bool{false, true} {
		var says bytes.Buffer
		d := progress.New(&says, progress.Plain)
		if _, err := Execute(t.Context(), run, Options{Recipe: "test", Out: t.TempDir(), Resume: true, Implied: implied, Display: d}); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if strings.Contains(says.String(), "nothing to resume") == implied {
			t.Errorf("implied %v:\n%s", implied, says.String())
		}
	}
}

// A folder of another schema is neither gone on with nor taken for the result.
func TestOtherSchemasAreNotGoneOnWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := execute(t, dir, false, "steps=6", "checkpoint_every=3")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"done", "stopped"} {
		var s Status
		path := filepath.Join(r.Folder, "status.json")
		if err := readJSON(path, &s); err != nil {
			t.Fatal(err)
		}
		s.Schema, s.State = Schema+1, state
		if err := writeJSON(path, s); err != nil {
			t.Fatal(err)
		}
		if _, err := execute(t, dir, true, "steps=6", "checkpoint_every=3"); err == nil || !strings.Contains(err.Error(), "written by another gradlab") {
			t.Errorf("%s: %v", state, err)
		}
		if state == "done" {
			if _, err := Extend(t.Context(), r.Folder, []string{"steps=9"}, Options{}); err == nil || !strings.Contains(err.Error(), "written by another gradlab") {
				t.Errorf("extended: %v", err)
			}
		}
	}
}

// A stop within an update that takes long leaves the last checkpoint, from which the run
// goes on to the bits of one that was not stopped.
func TestStopsWithinUpdate(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"net=local", "net=sim"} {
		over := []string{way, "mode=reduce", "codec=raw", "accumulate=4", "steps=20"}
		want := mustExecute(t, over...)
		run, dir, legs := mustRuns(t, small, over...)[0], t.TempDir(), 0
		var r *Result
		var within bool
		for err := ErrStopped; errors.Is(err, ErrStopped); legs++ {
			asks := stopAfter(50 + 40*legs)
			r, err = Execute(t.Context(), run, Options{Recipe: "test", Out: dir, Resume: legs > 0, hurry: 1, due: func() bool { return true },
				Stopping: func() bool { return legs < 3 && asks() }})
			if err != nil && !errors.Is(err, ErrStopped) {
				t.Fatal(err)
			}
			within = within || err != nil && strings.Contains(err.Error(), "stopped between the micro-batches of an update") && strings.Contains(err.Error(), "goes on from step ")
		}
		if !within || r.ParamsSHA256 != want.ParamsSHA256 || r.Steps != want.Steps {
			t.Errorf("%s: %d legs, broken off %v, %d steps to %s; without a stop %d to %s", way, legs, within, r.Steps, r.ParamsSHA256, want.Steps, want.ParamsSHA256)
		}
	}
}
