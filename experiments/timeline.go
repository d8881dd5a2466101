package experiments

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/comm/trace"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
)

// mostTraced bounds a trace: what browsers can still open.
const mostTraced = 1 << 20

// NetworkUse says how much of a virtual network a run used; links.json holds
// every link.
type NetworkUse struct {
	Seconds float64   `json:"seconds"` // of virtual time that it is about
	NICs    float64   `json:"nics"`    // used of all NICs' capacity, both directions
	Racks   float64   `json:"racks,omitempty"`
	Memory  float64   `json:"memory,omitempty"`
	Busiest []LinkUse `json:"busiest"` // at most eight, by what was used
	// Resent is how many bytes faults made links carry once more, billed to nobody.
	Resent uint64 `json:"resent,omitempty"`
}

// LinkUse is one link, in one direction.
type LinkUse struct {
	Link  string  `json:"link"` // nic 3 out
	Bytes uint64  `json:"bytes"`
	Busy  float64 `json:"busy"` // share of the time with a frame under way
	Used  float64 `json:"used"` // bytes over capacity and time; 0 if that is unlimited
}

// Use is how much of a virtual network a job has used, in all and of each link.
func Use(r *config.Resolved, job *train.Job, net *sim.Net) (all []LinkUse, sum *NetworkUse) {
	hosts := 1 + slices.Max(r.Place(job.World()-job.Workers))
	all, sum = useOf(net.Links(), hosts, r.Config().NetworkRack, job.World(), net.Now()-net.Start)
	sum.Resent = net.Resent()
	return all, sum
}

// useOf sums up the links of workers and servers, so many hosts, in racks of
// rack, and ranks, over a run of so much virtual time; those of the observer carry
// nothing.
func useOf(links []sim.Link, hosts, rack, ranks int, took time.Duration) (all []LinkUse, sum *NetworkUse) {
	sum = &NetworkUse{Seconds: took.Seconds()}
	count := map[string]float64{}
	for _, l := range links {
		if (l.Kind == "nic" || l.Kind == "bridge") && l.Index >= hosts || l.Kind == "rack" && l.Index*rack >= hosts || l.Kind == "memory" && l.Index >= ranks {
			continue
		}
		u := LinkUse{Link: fmt.Sprintf("%s %d in", l.Kind, l.Index), Bytes: l.Bytes}
		switch {
		case l.Kind == "bridge":
			u.Link = fmt.Sprintf("%s %d", l.Kind, l.Index)
		case l.Out:
			u.Link = fmt.Sprintf("%s %d out", l.Kind, l.Index)
		}
		if took > 0 {
			u.Busy = l.Busy.Seconds() / took.Seconds()
			if l.Capacity > 0 {
				u.Used = float64(l.Bytes) / l.Capacity / took.Seconds()
			}
		}
		count[l.Kind]++
		switch l.Kind {
		case "nic":
			sum.NICs += u.Used
		case "rack":
			sum.Racks += u.Used
		case "memory":
			sum.Memory += u.Used
		}
		all = append(all, u)
	}
	for kind, share := range map[string]*float64{"nic": &sum.NICs, "rack": &sum.Racks, "memory": &sum.Memory} {
		*share /= max(1, count[kind])
	}
	busiest := slices.Clone(all)
	sort.SliceStable(busiest, func(i, j int) bool { return busiest[i].Used > busiest[j].Used })
	for _, u := range busiest[:min(8, len(busiest))] {
		if u.Bytes > 0 {
			sum.Busiest = append(sum.Busiest, u)
		}
	}
	return all, sum
}

// tracer is what a run is traced with; nil if it is not.
func tracer(r *config.Resolved, job *train.Job) *trace.Recorder {
	if !r.IsObserved(config.Trace) {
		return nil
	}
	rec := &trace.Recorder{Limit: mostTraced}
	for i := range job.World() {
		rec.Names = append(rec.Names, job.RankName(i))
	}
	return rec
}

// runSim runs programs on a virtual network, and keeps what there is to see of
// it: also of a run that failed.
func runSim(r *config.Resolved, job *train.Job, net *sim.Net, f *folder, run func(comm.Net) error) error {
	rec := tracer(r, job)
	if rec != nil {
		net.Probe = rec
	}
	err := run(net)
	var all []LinkUse
	all, f.network = Use(r, job, net)
	if keep := writeJSON(f.file("links.json"), all); err == nil {
		err = keep
	}
	if rec != nil {
		if keep := f.keepTrace(rec); err == nil {
			err = keep
		}
	}
	return err
}

// keepTrace writes trace.json.gz and timeline.svg, and notes what they leave out.
func (f *folder) keepTrace(r *trace.Recorder) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := r.Chrome(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := writeFile(f.file("trace.json.gz"), b.Bytes()); err != nil {
		return err
	}
	b.Reset()
	if err := r.SVG(&b, trace.Window{}); err != nil {
		return err
	}
	f.cut = cutOff(r)
	return writeFile(f.file("timeline.svg"), b.Bytes())
}

// cutOff says what a trace and its picture leave out; nothing if they show it all.
func cutOff(r *trace.Recorder) string {
	var parts []string
	if n := r.Dropped(); n > 0 {
		parts = append(parts, fmt.Sprintf("trace.json.gz holds %s: %d spans and frames came after the first %d, which are all it keeps (fewer steps or workers leave less)", r.Kept().Of(r.All()), n, r.Limit))
	}
	if part := r.Overview().Of(r.All()); part != "" {
		parts = append(parts, "timeline.svg shows "+part)
	}
	return strings.Join(parts, "; ")
}
