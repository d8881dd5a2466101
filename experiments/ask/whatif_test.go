package ask

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// The replay of a run takes the run's time and bytes; with other keys it takes
// those of a run with these keys.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"server":   {"mode=server", "servers=2", "codec=qsgd(bits=4)"},
		"ring":     {"mode=reduce", "overlap=fusion(cycle=100us)"},
		"noted":    {"mode=server", "codec=feedback(topk(keep=0.1,index=rice))"}, // sizes depend on gradients
		"computed": {"mode=server", "codec=feedback(topk(keep=0.1,index=rice))"},
		"apart":    {"mode=localsgd(h=2)", "codec=raw"},
	} {
		t.Run(name, func(t *testing.T) {
			keys = append(keys, "eval_every=0")
			r := mustExecute(t, keys...)
			noted := name == "noted"
			if name == "computed" { // where sizes were not noted
				if err := os.Remove(filepath.Join(r.Folder, "sizes.gz")); err != nil {
					t.Fatal(err)
				}
			}
			w, err := AnswerWhatIf(context.Background(), r.Folder, []string{"network.bandwidth=10Mbps,1Gbps"}, config.Places{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			in, each, err := Lies(t.Context(), r.Folder, config.Places{}, 8)
			if in != nil && (len(each) != 8 || slices.Min(each) > in.Low || slices.Max(each) < in.High) {
				t.Errorf("draws %v of %v", each, in)
			}
			if err != nil || (in == nil) != (name == "computed") || in != nil && !(in.Low > 0 && in.Low < in.High) {
				t.Errorf("its time lies in %v: %v", in, err)
			}
			near := func(what string, got, want float64) {
				t.Helper()
				if math.Abs(got/want-1) > 1e-6 {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			near("seconds", w.Was.Seconds, r.VirtualSeconds)
			near("bytes", w.Was.BytesUp, float64(r.BytesUp))
			if len(w.Is) != 2 || w.Is[0].Name != "network.bandwidth=10Mbps" || w.Is[1].Name != "network.bandwidth=1Gbps" || w.Was.Weightless == (noted || name == "computed") || w.Was.Noted != noted {
				t.Fatalf("%+v", w)
			}
			slow := mustExecute(t, append(keys, "network.bandwidth=10Mbps")...)
			near("seconds at 10 Mb/s", w.Is[0].Seconds, slow.VirtualSeconds)
			var b bytes.Buffer
			if err := w.Write(&b, "markdown"); err != nil || !strings.Contains(b.String(), "off by +0.00 %") {
				t.Errorf("%v\n%s", err, b.String())
			}
			var bad *config.Error
			if _, err := AnswerWhatIf(context.Background(), r.Folder, []string{"data=mnist"}, config.Places{}, 0); !errors.As(err, &bad) {
				t.Errorf("other data: %v", err)
			}
		})
	}
}

// A run that was stopped is replayed over the updates that it made.
func TestWhatIfOfAStoppedRun(t *testing.T) {
	t.Parallel()
	asked := 0
	run := mustRuns(t, small, "mode=server", "model=logistic", "steps=300", "eval_every=0")[0]
	r, err := experiments.Execute(context.Background(), run, experiments.Options{Out: t.TempDir(), Stopping: func() bool { asked++; return asked > 60 }})
	if !errors.Is(err, experiments.ErrStopped) || r.Steps >= 300 {
		t.Fatalf("%v, %+v", err, r)
	}
	w, err := AnswerWhatIf(context.Background(), r.Folder, []string{"network.bandwidth=10Mbps"}, config.Places{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if w.Was.Updates != r.Steps || math.Abs(w.Was.Seconds/r.VirtualSeconds-1) > 0.02 {
		t.Errorf("replayed as %d updates in %v s, made %d in %v s", w.Was.Updates, w.Was.Seconds, r.Steps, r.VirtualSeconds)
	}
}

// Runs that change on their way are replayed to their end.
func TestWhatIfOfRunsThatChange(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, keys := range map[string][]string{
		"localsgd": {"mode=localsgd(h=16,start=100)"},
		"dgc":      {"mode=gather", "codec=bysize(dgc(keep=0.01,warmup=200,unit=steps))"},
		"deaths":   {"mode=server", "policy=asp", "faults=kill(w2,at=100ms)"},
		"downpour": {"mode=downpour(warm_start=100)", "policy=asp"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustExecute(t, append(keys, "model=logistic", "batch=8", "steps=400", "eval_every=0")...)
			w, err := AnswerWhatIf(context.Background(), r.Folder, []string{"network.bandwidth=100Mbps"}, config.Places{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if off := w.Was.Seconds/r.VirtualSeconds - 1; w.Was.Replayed != 400 || math.Abs(off) > 0.01 {
				t.Errorf("%d of %d updates replayed, off by %+.2f %%", w.Was.Replayed, w.Was.Updates, 100*off)
			}
			if w.note() != "" {
				t.Errorf("note of a whole replay: %s", w.note())
			}
		})
	}
}

// Keys that a replay takes no notice of are refused, with what it does instead.
func TestWhatIfRefuses(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		"steps=10": "as many updates", "epochs=2": "as many updates", "net=local": "virtual cluster", "emulate=true": "virtual cluster",
		"eval_every=5": "no record", "target=0.9": "no record", "Observe=trace": "no record", "weightless=true": "sizes of frames", "data=mnist": "other data",
	} {
		var bad *config.Error
		_, err := AnswerWhatIf(context.Background(), t.TempDir(), []string{change}, config.Places{}, 0)
		key, _, _ := strings.Cut(strings.ToLower(change), "=")
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+key+`"`) || !strings.Contains(err.Error(), "network.*") {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	for key := range fixed {
		if !slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == key }) {
			t.Errorf("%q is no key", key)
		}
	}
}

// The data set is not needed: what a replay wants to know of it is in the record.
func TestWhatIfWithoutData(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, c := range map[string]struct{ codec, change, want string }{
		"exact":      {"qsgd(bits=4)", "codec=qsgd(bits=2)", ""},
		"noted":      {"topk(keep=0.1)", "network.bandwidth=10Mbps", ""},
		"new codec":  {"qsgd(bits=4)", "codec=topk(keep=0.1,index=raw32)", ""},
		"must learn": {"raw", "codec=topk(keep=0.1)", "to compute them"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustExecute(t, "codec="+c.codec, "device.codec=free")
			away(t, r.Folder)
			w, err := AnswerWhatIf(context.Background(), r.Folder, []string{c.change}, config.Places{Dir: t.TempDir(), Cache: t.TempDir()}, 0)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil || w.Was.Seconds <= 0 || len(w.Is) != 1 || math.Abs(w.Was.Seconds/r.VirtualSeconds-1) > 1e-6 {
				t.Fatalf("%+v, %v", w, err)
			}
		})
	}
}

// away makes a folder that of a run on data which this machine does not have.
func away(t *testing.T, folder string) {
	t.Helper()
	path := filepath.Join(folder, "config.yaml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("data: digits\n"), []byte("data: imagenet\n"), 1)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
