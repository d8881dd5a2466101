package reproduce

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/internal/patience"
)

var update = flag.Bool("update", false, "write the figures of pages instead of comparing them")

// accuracyRows are the rows of docs/accuracy-of-predictions.md: how the first cell begins,
// the study whose predictions a row counts, and a pattern of the names of the points in it.
var accuracyRows = []struct {
	head, study, points string
}{
	{"DLPerf, ResNet-50", "dlperf", ""},
	{"DLPerf, `gradlab calibrate`", "calibrate", ""}, // no study: dlperfCalibrated
	{"GRACE, ResNet-50", "grace", "^resnet50"},
	{"the same, DenseNet-40", "grace", "^densenet40"},
	{"diloco-measured", "diloco-measured", ""},
	{"of these, local steps on 200 Mb/s and more", "diloco-measured", `^(diloco|localsgd), (200|1000|5000) Mb/s, round of (1|8|32)$`},
	{"Bugliarello 2017", "tf-ps", ""},
	{"Cho et al. 2017", "ddl", ""},
	{"Goyal et al. 2017", "goyal-time", ""},
	{"Sergeev 2018", "horovod", ""},
	{"Cho's and Akiba's", "imagenet-table", ""},
	{"GRACE, both", "grace", ""},
}

// Every row of docs/accuracy-of-predictions.md, and what it says of all points, is what the
// commands give: points that were not fitted inside their interval, errors, and half an
// interval. With -update the page is written.
//
//	go test ./experiments/reproduce -tags long -run TestAccuracyOnThePage -update
func TestAccuracyOnThePage(t *testing.T) {
	const page = "docs/accuracy-of-predictions.md"
	b, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(string(b), -1)[1:] // below the head
	if len(rows) != len(accuracyRows) {
		t.Fatalf("%s has %d rows, %d are known", page, len(rows), len(accuracyRows))
	}
	for i, row := range rows {
		if want := "| " + accuracyRows[i].head; !strings.HasPrefix(row, want) || strings.Count(row, "|") != 8 {
			t.Fatalf("row %d of %s is %s; want eight bars, and first %q", i+1, page, row, want)
		}
	}
	if !patience.Long {
		t.Skip("predicts published points, each many times")
	}
	reports := map[string]*Report{"calibrate": dlperfCalibrated(t)}
	var all []*Report
	for _, row := range accuracyRows {
		if reports[row.study] != nil {
			continue
		}
		dir := t.TempDir()
		r, err := Run(t.Context(), row.study, &Lab{Quick: true, Out: dir, Runs: experiments.Options{Recipe: row.study, Out: dir}})
		if err != nil {
			t.Fatal(err)
		}
		reports[row.study] = r
		all = append(all, r)
	}
	text := string(b)
	for i, row := range accuracyRows {
		of, some := regexp.MustCompile(row.points), &Report{Study: row.study}
		for _, p := range reports[row.study].Predicted {
			if of.MatchString(p.Name) {
				some.Predicted = append(some.Predicted, p)
			}
		}
		cells := strings.Split(rows[i], "|")
		points, err1 := strconv.Atoi(strings.TrimSpace(cells[2]))
		fitted, err2 := strconv.Atoi(strings.TrimSpace(cells[3]))
		if n := len(some.Predicted); err1 != nil || err2 != nil || points-fitted != n {
			t.Errorf("%s has%s points,%sof them fitted; %d are not", page, cells[2], cells[3], n)
			continue
		}
		for j, want := range onPage(t, some) {
			cells[4+j] = strings.TrimRight(" "+want, " ") + " " // one where there is nothing
		}
		text = strings.Replace(text, rows[i], strings.Join(cells, "|"), 1)
	}
	c, _ := Covered(all)
	total := regexp.MustCompile(`[0-9]+ of [0-9]+ lie inside, .* rms;`)
	text = total.ReplaceAllString(text, strings.ReplaceAll(fmt.Sprintf("%d of %d lie inside, %.0f %%. Half an interval is %.1f %% in the median. Errors are %+.1f %% in the median and %.1f %% rms;",
		inside(all), c.Points, c.Inside, c.Width, c.Median, c.RMS), "-", "−"))
	switch {
	case !total.MatchString(text):
		t.Errorf("%s does not say what all points come to", page)
	case *update:
		if err := os.WriteFile("../../"+page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case text != string(b):
		was := strings.Split(string(b), "\n")
		for i, line := range strings.Split(text, "\n") {
			if line != was[i] {
				t.Errorf("%s:%d has\n%s\nthe commands give\n%s", page, i+1, was[i], line)
			}
		}
	}
}

// inside is how many points lie in their intervals.
func inside(reports []*Report) (n int) {
	for _, r := range reports {
		for _, p := range r.Predicted {
			if p.Inside() {
				n++
			}
		}
	}
	return n
}

// onPage is the cells of a report: points inside, median and rms error, half an interval. A
// single point has no rms.
func onPage(t *testing.T, r *Report) []string {
	t.Helper()
	c, _ := Covered([]*Report{r})
	if c == nil {
		t.Fatalf("%s predicts nothing", r.Study)
	}
	n := inside([]*Report{r})
	in, rms := fmt.Sprintf("%d of %d", n, c.Points), ""
	if n < c.Points {
		in += fmt.Sprintf(" (%.0f %%)", c.Inside)
	}
	if c.Points > 1 {
		rms = fmt.Sprintf("%.1f %%", c.RMS)
	}
	return []string{in, strings.ReplaceAll(fmt.Sprintf("%+.1f %%", c.Median), "-", "−"), rms, fmt.Sprintf("%.1f %%", c.Width)}
}

// dlperfCalibrated is what gradlab calibrate predicts of each framework's rates on 16 and 32
// GPUs from those on 1 and 8.
func dlperfCalibrated(t *testing.T) *Report {
	t.Helper()
	names, rates, err := dlperfRates()
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Study: "calibrate"}
	gpus := slices.Concat([]int{1}, dlperfGPUs)
	for _, name := range names {
		file := filepath.Join(t.TempDir(), "points.csv")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w := csv.NewWriter(f)
		w.Write([]string{"model", "gpus", "batch", "images_per_second"})
		for _, n := range gpus {
			w.Write([]string{"resnet50", strconv.Itoa(n), "128", fmt.Sprint(rates[name][n])})
		}
		if w.Flush(); w.Error() != nil || f.Close() != nil {
			t.Fatal(w.Error())
		}
		points, err := ask.ReadMeasurements(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ask.Calibrate(t.Context(), ask.QuestionOfPoints{Measurements: points, Fit: []int{1, 2}, Keys: []string{
			"network.bandwidth=100Gbps", "network.per_host=8", "network.inside=1e11", "transport=nccl-rdma",
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range c.Points {
			if images := float64(128 * gpus[i]); !p.Fitted {
				r.predicts(fmt.Sprintf("%s, %d GPUs", name, gpus[i]), images/p.Measured, images/p.Predicted, images/p.High, images/p.Low)
			}
		}
	}
	return r
}

// What docs/clusters.md says of advise beside the virtual cluster is what the study gives.
// With -update the page is written.
func TestAdvisorOnThePage(t *testing.T) {
	if !patience.Long {
		t.Skip("simulates options of eight clusters")
	}
	const page = "../../docs/clusters.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := Run(t.Context(), "advisor", &Lab{Out: dir, Runs: experiments.Options{Recipe: "advisor", Out: dir}})
	if err != nil {
		t.Fatal(err)
	}
	most, clusters, share := 0.0, 0, ""
	for _, p := range r.Points {
		var n int
		switch {
		case strings.HasPrefix(p.Name, "regret,"):
			most, clusters = max(most, p.Ours), clusters+1
		case strings.HasPrefix(p.Name, "share of "):
			if _, err := fmt.Sscanf(p.Name, "share of %d predictions within 10 %%", &n); err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			share = fmt.Sprintf("%.0f %% of %d predicted steps lay within 10 %%", 100*p.Ours, n)
		}
	}
	var low, high float64
	if _, at, ok := strings.Cut(r.Notes[len(r.Notes)-1], ", from "); !ok {
		t.Fatal(r.Notes)
	} else if _, err := fmt.Sscanf(at, "%f %% to %f %%", &low, &high); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("on %d networks and clusters. The option predicted best was at most %.1f %% slower than the best of those simulated.\n%s, from %+.1f to %+.1f %%.",
		clusters, 100*most, share, low, high)
	want = strings.ReplaceAll(want, "-", "−")
	said := regexp.MustCompile(`on [a-z0-9]+ networks and clusters\. The option predicted best .*\n.*predicted steps lay within .*`)
	text := said.ReplaceAllLiteralString(string(b), want)
	switch {
	case !said.Match(b):
		t.Errorf("%s says nothing of the study", page)
	case *update:
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case text != string(b):
		t.Errorf("%s has\n%s\nthe study gives\n%s", page, said.Find(b), want)
	}
}
