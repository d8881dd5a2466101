package experiments

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/comm/trace"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/patience"
)

// A traced run leaves what it did in its folder, changes nothing by that, and
// its links carried its bytes.
func TestTrace(t *testing.T) {
	t.Parallel()
	keys := []string{"servers=2", "model=logistic", "steps=4", "eval_every=0"}
	plain := mustExecute(t, keys...)
	r := mustExecute(t, append(keys, "observe=trace")...)
	if r.ParamsSHA256 != plain.ParamsSHA256 || r.VirtualSeconds != plain.VirtualSeconds {
		t.Errorf("%s after %v s; without a trace %s after %v s", r.ParamsSHA256, r.VirtualSeconds, plain.ParamsSHA256, plain.VirtualSeconds)
	}
	f, err := os.Open(filepath.Join(r.Folder, "trace.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph, Name string
			Pid      int
			Args     struct{ Bytes uint64 }
		}
	}
	if err := json.NewDecoder(z).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	sent, computed := uint64(0), 0
	for _, e := range doc.TraceEvents {
		if e.Ph == "X" && e.Name == "compute" {
			computed++
		}
		sent += e.Args.Bytes
	}
	if computed != 3*4 || sent != r.BytesUp+r.BytesDown {
		t.Errorf("%d passes and %d bytes in the trace, want 12 and %d", computed, sent, r.BytesUp+r.BytesDown)
	}
	if b, err := os.ReadFile(filepath.Join(r.Folder, "timeline.svg")); err != nil || !strings.Contains(string(b), ">server 1<") {
		t.Errorf("a picture of %d bytes: %v", len(b), err)
	}
	var links []LinkUse
	if err := readJSON(filepath.Join(r.Folder, "links.json"), &links); err != nil {
		t.Fatal(err)
	}
	in, out := uint64(0), uint64(0)
	for _, l := range links {
		switch {
		case strings.HasPrefix(l.Link, "nic") && strings.HasSuffix(l.Link, "out"):
			out += l.Bytes
		case strings.HasPrefix(l.Link, "nic"):
			in += l.Bytes
		}
		if l.Used > l.Busy+1e-9 || l.Busy > 1 {
			t.Errorf("%+v", l)
		}
	}
	if n := r.Network; in != out || out != r.BytesUp+r.BytesDown || n == nil || n.NICs <= 0 || len(n.Busiest) == 0 ||
		math.Abs(n.Seconds/r.VirtualSeconds-1) > 0.5 {
		t.Errorf("%d bytes went in, %d out, want %d; %+v after %v s", in, out, r.BytesUp+r.BytesDown, r.Network, r.VirtualSeconds)
	}
	c := config.Default()
	c.Observe, c.Net = "trace", "local"
	if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), `key "observe"`) {
		t.Errorf("a trace on a real clock: %v", err)
	}
}

// A trace that leaves something out says so when the run ends.
func TestTraceCutOff(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for steps, want := range map[string]string{"steps=4": "", "steps=3000": "timeline.svg shows the first "} {
		var b bytes.Buffer
		d := progress.New(&b, progress.Plain)
		run := mustRuns(t, small, "model=logistic", "batch=1", "eval_every=0", "observe=trace", steps)[0]
		if _, err := Execute(context.Background(), run, Options{Out: t.TempDir(), Display: d}); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if said := strings.Contains(b.String(), "timeline.svg"); said != (want != "") || !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", steps, want, b.String())
		}
	}
	r := &trace.Recorder{Limit: 2}
	for i := range 10 {
		r.Span(sim.Span{Doing: sim.Computing, From: time.Duration(i), To: time.Duration(i + 1)})
	}
	if said := cutOff(r); !strings.Contains(said, "trace.json.gz holds the first 2ns of 10ns: 8 spans") {
		t.Error(said)
	}
	for _, o := range config.Observations() {
		if o.Name == config.Trace && !strings.Contains(strings.ReplaceAll(o.About, ",", ""), fmt.Sprint(mostTraced)) {
			t.Errorf("observation trace does not name its limit: %s", o.About)
		}
	}
}

// A rack with nothing but the observer's host in it is no rack of the run.
func TestRacksOfTheRun(t *testing.T) {
	t.Parallel()
	r := mustExecute(t, "workers=8", "mode=reduce", "model=logistic", "steps=4", "eval_every=0", "network.rack=2", "network.oversubscription=4")
	var links []LinkUse
	if err := readJSON(filepath.Join(r.Folder, "links.json"), &links); err != nil {
		t.Fatal(err)
	}
	used, racks := 0.0, 0.0
	for _, l := range links {
		if strings.HasPrefix(l.Link, "rack") {
			used, racks = used+l.Used, racks+1
		}
	}
	if racks != 2*4 || used == 0 || math.Abs(r.Network.Racks-used/racks) > 1e-12 {
		t.Errorf("%v of %v directions of racks, %v in all", used, racks, r.Network.Racks)
	}
}
