package ask

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
)

// ncclHeads are the heads of a table of nccl-tests.
const ncclHeads = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"

// ncclRanks lists n ranks, two on each host.
func ncclRanks(n int) (out string) {
	for r := range n {
		out += fmt.Sprintf("#  Rank  %d Group  0 Pid  %d on      node%d device  %d [0x00] NVIDIA A100\n", r, 4711+r, r/2, r%2)
	}
	return out
}

// ncclRow is a row of 1 MiB that took 400 µs, with busbw of so many times algbw.
func ncclRow(factor float64) string {
	b := 2.62 * factor
	return fmt.Sprintf("1048576 262144 float sum -1 400.0 2.62 %.2f 0 401.0 2.61 %.2f 0\n", b, b)
}

// Ranks belong to the table behind them, whatever lies between, and whichever launcher
// put its prefix before the lines.
func TestNCCLTables(t *testing.T) {
	t.Parallel()
	one := ncclRanks(4) + ncclHeads + ncclRow(1.5)
	prefixed := func(prefix string) (out string) {
		for line := range strings.Lines(one) {
			out += prefix + line
		}
		return out
	}
	for name, c := range map[string]struct {
		text string
		want []string // workers of each point
	}{
		"twice":                {one + one, []string{"4", "4"}},
		"twice, without heads": {one + ncclRanks(2) + ncclHeads + ncclRow(1), []string{"4", "2"}},
		"a list without table": {ncclRanks(6) + "# Using devices\n" + one, []string{"4"}},
		"a list that was torn": {ncclRanks(3) + one, []string{"4"}},
		"two cycles":           {one + ncclHeads + ncclRow(1.5), []string{"4", "4"}},
		"not validated":        {strings.ReplaceAll(one, " 0 401.0", " N/A 401.0"), []string{"4"}},
		"Open MPI 4":           {prefixed("[1,0]<stdout>:"), []string{"4"}},
		"Open MPI 5":           {prefixed("[prterun-node1-77@1,0]<stdout>: "), []string{"4"}},
		"torchrun":             {prefixed("[default0]:"), []string{"4"}},
		"srun --label":         {prefixed(" 0: "), []string{"4"}},
		"Hydra":                {prefixed("[0] "), []string{"4"}},
		"docker compose":       {prefixed("bench-1  | "), []string{"4"}},
		"pdsh":                 {prefixed("worker-0: "), []string{"4"}},
		"kubectl":              {prefixed("[pod/bench-0/main] 2026-11-28T06:49:00.123Z "), []string{"4"}},
		"horovodrun":           {prefixed("Sat Nov 28 06:49:00 2026[1,0]<stdout>:"), []string{"4"}},
	} {
		m, err := readMeasurements("f", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, x := range m {
			workers, _ := strings.CutPrefix(x.Keys[0], "workers=")
			got = append(got, workers)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: points of %v workers; want %v", name, got, c.want)
		}
	}
}

// Progress of PyTorch's example is found behind a launcher's prefix too.
func TestEpochsWithPrefix(t *testing.T) {
	t.Parallel()
	m, err := readMeasurements("f", []byte("[default0]:Epoch: [0][  1/5005]\tTime  8.115 (  8.115)\n[default0]:Epoch: [0][101/5005]\tTime  0.341 (  0.412)\n"))
	if err != nil || len(m) != 1 || m[0].Seconds != 0.412 || m[0].Where != "f:2" {
		t.Errorf("%+v, %v", m, err)
	}
}

// Groups that sum at once share the links of their hosts, on the virtual cluster too.
func TestNCCLGroups(t *testing.T) {
	t.Parallel()
	m, err := ReadMeasurements("testdata/measured/nccl-groups.log")
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 4 || fmt.Sprint(m[0].Keys) != "[workers=8 network.per_host=4]" || fmt.Sprint(m[0].Groups) != "[[0 4] [1 5] [2 6] [3 7]]" {
		t.Fatalf("%+v", m)
	}
	takes := func(groups [][]int, keys ...string) float64 {
		t.Helper()
		p, err := point1(Measurement{Seconds: 1, Bytes: 64 << 20, Keys: append([]string{"transport=unknown", "network.bandwidth=1GB/s", "network.latency=0s"}, keys...)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if groups != nil && p.What == "" {
			t.Error("a point without a name")
		}
		s, err := allReduceTakes(t.Context(), p.config, p.bytes, groups)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	four := takes(m[0].Groups, "workers=8", "network.per_host=4")
	if one := takes(nil, "workers=2", "network.per_host=1"); four/one < 3.5 || four/one > 4.5 {
		t.Errorf("four pairs on one link take %v s, a pair %v s; want four times as long", four, one)
	}
}

// What is no all-reduce is no measurement of one, by its name or by its numbers.
func TestNCCLRefuses(t *testing.T) {
	t.Parallel()
	reduceScatter, err := os.ReadFile("testdata/measured/nccl-reduce-scatter.log")
	if err != nil {
		t.Fatal(err)
	}
	unnamed := strings.ReplaceAll(ncclHeads, "  redop    root", "")
	for _, c := range []struct{ text, want string }{
		{string(reduceScatter), "f:11: this is a table of reduce_scatter_perf"},
		{"+ mpirun ./build/alltoall_perf -b 1M\n" + ncclRanks(4) + ncclHeads + ncclRow(1.5), "alltoall_perf"},
		{ncclRanks(4) + ncclHeads + ncclRow(0.75), "f:6: busbw is 0.751 of algbw, and an all-reduce of 4 ranks has 2·(n−1)/n = 1.5"},
		{ncclRanks(4) + ncclHeads + ncclRow(1), "busbw is 0.999 of algbw"},
		{ncclRanks(2) + ncclHeads + ncclRow(0.5), "busbw is 0.5 of algbw"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), "sum", "none", 1), "redop is none"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), "-1", "0", 1), "root is 0"},
		{ncclRanks(2) + unnamed + "1048576 262144 float 400.0 2.62 1.31 0 401.0 2.61 1.31 0\n", "no column redop"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), " 0 401.0", " 17 401.0", 1), "f:4: #wrong is 17"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), "2.62 0\n", "2.62 3\n", 1), "f:4: #wrong is 3"},
		{ncclRanks(2) + ncclHeads + ncclRow(1) + "# Out of bounds values : 3 FAILED\n", "f:5: 3 values of this run are wrong"},
		{ncclRanks(2) + ncclHeads + "1048576 262144 float sum -1 400.0 2.62\n", "f:4: 7 values below 13 heads"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), "400.0", "fast", 1), `column time: "fast" is no number`},
		{ncclHeads + ncclRow(1), "0 ranks"},
		{ncclRanks(4)[len(ncclRanks(1)):] + ncclHeads + ncclRow(1.5), "not rank 0"},
		{strings.Replace(ncclRanks(4), "Group  0", "Group  1", 1) + ncclHeads + ncclRow(1), "group 1 has ranks: 1; want groups of the same number of ranks, two at least"},
		{strings.Replace(ncclRanks(4), "Group  0 Pid  4711", "Group  1 Pid  4711", 1) + ncclHeads, "no rows of type float"},
		{ncclRanks(2) + ncclHeads + strings.Replace(ncclRow(1), "float", "half", 1), "no rows of type float"},
		{"\xff\xfem\x00o\x00", "UTF-16"},
	} {
		if m, err := readMeasurements("f", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v; want %q", c.text, m, err, c.want)
		}
	}
}

// A hundred thousand points are refused before any is looked at.
func TestCalibrationIsBounded(t *testing.T) {
	t.Parallel()
	_, err := Calibrate(t.Context(), QuestionOfPoints{Measurements: make([]Measurement, 1e5)})
	if _, ok := err.(*config.Error); !ok || !strings.Contains(err.Error(), "100000 points; want at most 1000") {
		t.Error(err)
	}
}
