package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/internal/patience"
)

func TestMeasurements(t *testing.T) {
	t.Parallel()
	two := func() (out []Measurement) {
		keys := []string{"workers=2", "network.per_host=1"}
		for i, us := range []float64{400, 1500, 5900, 23500} {
			out = append(out, Measurement{Where: fmt.Sprint(10 + i), Seconds: us / 1e6, Bytes: 1 << (20 + 2*i), Keys: keys})
		}
		return out
	}
	for _, c := range []struct {
		file string
		want []Measurement
	}{
		{"nccl.log", []Measurement{
			{Where: "12", Seconds: 812.5e-6, Bytes: 1 << 20, Keys: []string{"workers=4", "network.per_host=2"}},
			{Where: "13", Seconds: 5210e-6, Bytes: 8 << 20, Keys: []string{"workers=4", "network.per_host=2"}},
			{Where: "15", Seconds: 40512e-6, Bytes: 64 << 20, Keys: []string{"workers=4", "network.per_host=2"}},
		}},
		{"nccl-old.log", []Measurement{{Where: "5", Seconds: 912.5e-6, Bytes: 1 << 20, Keys: []string{"workers=2", "network.per_host=1"}}}},
		{"horovod.log", []Measurement{
			{Where: "8", Rate: 1202, Keys: []string{"timing=resnet50", "batch=32", "workers=4"}},
			{Where: "12", Rate: 911.5, Keys: []string{"timing=vgg16", "batch=64", "workers=8"}},
		}},
		{"nccl-with-prefix.log", two()},
		{"nccl-two-runs.log", append(two(),
			Measurement{Where: "28", Seconds: 600e-6, Bytes: 1 << 20, Keys: []string{"workers=4", "network.per_host=1"}},
			Measurement{Where: "29", Seconds: 2250e-6, Bytes: 4 << 20, Keys: []string{"workers=4", "network.per_host=1"}},
			Measurement{Where: "30", Seconds: 8850e-6, Bytes: 16 << 20, Keys: []string{"workers=4", "network.per_host=1"}},
			Measurement{Where: "31", Seconds: 35250e-6, Bytes: 64 << 20, Keys: []string{"workers=4", "network.per_host=1"}},
		)},
		{"horovod-with-prefix.log", []Measurement{{Where: "8", Rate: 432.8, Keys: []string{"timing=resnet50", "batch=32", "workers=4"}}}},
		{"calibrate-with-bom.csv", []Measurement{
			{Where: "2", Rate: 432.8, Keys: []string{"timing=resnet50", "workers=4", "batch=32"}},
			{Where: "3", Rate: 832.8, Keys: []string{"timing=resnet50", "workers=8", "batch=32"}},
		}},
		{"imagenet.log", []Measurement{{Where: "3", Seconds: 0.412}}},
	} {
		file := filepath.Join("testdata/measured", c.file)
		got, err := ReadMeasurements(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for i := range c.want {
			c.want[i].Where = file + ":" + c.want[i].Where
		}
		same := func(a, b Measurement) bool {
			return a.Where == b.Where && math.Abs(a.Seconds-b.Seconds) < 1e-12 && a.Rate == b.Rate && a.Bytes == b.Bytes && slices.Equal(a.Keys, b.Keys)
		}
		if !slices.EqualFunc(got, c.want, same) {
			t.Errorf("%s: %+v; want %+v", c.file, got, c.want)
		}
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTables(t *testing.T) {
	t.Parallel()
	got, err := ReadMeasurements(write(t, "a.csv", "# mine\nModel, GPUs, batch, codec, step_ms, note\nresnet50, 4, 32, \"qsgd(bits=4)\", 250,\nvgg16,8,,,1e3,with a comma\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Seconds != 0.25 || !slices.Equal(got[0].Keys, []string{"timing=resnet50", "workers=4", "batch=32", "codec=qsgd(bits=4)"}) || !slices.Equal(got[1].Keys, []string{"timing=vgg16", "workers=8"}) {
		t.Errorf("%+v", got)
	}
	got, err = ReadMeasurements(write(t, "b.json", `{"all_reduces": [{"procs": 4, "bytes": 4096, "name": "grpc", "topology": "ring", "microseconds": {"median": 120, "min": 1, "max": 2}}, {"procs": 4, "bytes": 4096, "name": "gloo", "microseconds": {"median": 90}}]}`))
	if err != nil || len(got) != 1 || got[0].Seconds != 120e-6 || !slices.Equal(got[0].Keys, []string{"workers=4", "topology=ring"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"model,workers,speed\n":             `column "speed"`,
		"model,workers\nresnet50,4\n":       "there are 0",
		"model,step_ms,images_per_second\n": "there are 2",
		"model,step_ms\nresnet50,fast\n":    `"fast" is no number`,
		"model,step_ms\nresnet50,-1\n":      "above 0",
		"model,step_ms\nresnet50,NaN\n":     "above 0",
		"model,step_ms\nresnet50\n":         "wrong number of fields",
		"model,step_ms\n":                   "no measurements",
		"":                                  "EOF",
		"{":                                 "JSON",
		"size count type redop time algbw busbw\n8 2 float sum 1": "ranks",
	} {
		if _, err := ReadMeasurements(write(t, "bad.csv", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// FuzzMeasurements holds that no file is too odd to be refused or read.
func FuzzMeasurements(f *testing.F) {
	for _, name := range []string{"nccl.log", "nccl-old.log", "horovod.log", "imagenet.log"} {
		b, err := os.ReadFile(filepath.Join("testdata/measured", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("model,workers,step_ms\nresnet50,4,250\n"))
	f.Add([]byte(`{"all_reduces": [{"procs": 4}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMeasurements("f", b)
		if err == nil && len(m) == 0 {
			t.Error("neither measurements nor an error")
		}
	})
}

// made are points of a cluster whose parameters are known: steps of small networks, and
// all-reduces.
func made(t *testing.T, truth ...string) (out []Measurement) {
	t.Helper()
	for _, keys := range [][]string{
		{"timing=resnet20", "workers=1", "batch=64"}, {"timing=resnet20", "workers=2", "batch=64"}, {"timing=resnet20", "workers=4", "batch=64"},
		{"timing=lenet", "workers=1", "batch=64"}, {"timing=lenet", "workers=4", "batch=64"}, {"timing=lenet", "workers=8", "batch=16"},
		{"timing=resnet20", "workers=8", "batch=32"},
	} {
		p, err := point1(Measurement{Keys: append(slices.Clone(keys), truth...), Seconds: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		took, err := Blended(t.Context(), p.config, func(ctx context.Context, c config.Config) (float64, error) {
			return updateTakes(ctx, c, 1, 4, Watch{})
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Measurement{Where: fmt.Sprint("made:", len(out)+1), Keys: keys, Seconds: took})
	}
	for _, size := range []int{1 << 20, 8 << 20} {
		m := Measurement{Keys: append([]string{"workers=4"}, truth...), Seconds: 1, Bytes: size}
		p, err := point1(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Seconds, err = allReduceTakes(t.Context(), p.config, size, nil); err != nil {
			t.Fatal(err)
		}
		m.Keys, m.Where = []string{"workers=4"}, fmt.Sprint("made:", len(out)+1)
		out = append(out, m)
	}
	return out
}

const slowNet = "network.bandwidth=100Mbps"

// Parameters of a cluster are found again from times on it, as well as they can be told,
// and points that were held out are predicted.
func TestCalibrationFindsTheCluster(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	truth := []string{slowNet, "device.flops=3e10", "constants.share=0.5", "constants.overlap=0.8", "constants.step=2ms", "constants.overhead=0.03", "device.law=constant"}
	q := QuestionOfPoints{Keys: []string{slowNet}, Measurements: made(t, truth...), Fit: []int{1, 2, 3, 4, 5, 8}}
	c, err := Calibrate(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Parameters {
		var x float64
		fmt.Sscan(p.After, &x)
		var want, off float64
		switch p.Key {
		case "constants.share":
			want, off = 0.5, 0.1
		case "device.flops on resnet20", "device.flops on lenet":
			want, off = 3e10, 0.05
		default:
			continue
		}
		if math.Abs(x/want-1) > off || p.Told < 0.8 {
			t.Errorf("%s: %s, learned %.2f; want %v", p.Key, p.After, p.Told, want)
		}
	}
	if c.Held.Points != 3 || c.Held.RMS > 0.05 || c.Held.Covered != 3 {
		t.Errorf("held out: %+v", c.Held)
	}
	// Without the only point that computing decides, the speed on lenet is not known: the
	// others predict nothing of it.
	if c.Points[3].LeftOut != 0 || c.LeftOut == 0 || c.LeftOut > 0.2 {
		t.Errorf("left out: %v, all %v", c.Points[3].LeftOut, c.LeftOut)
	}
	var text bytes.Buffer
	if err := c.Write(&text, "box"); err != nil || !strings.Contains(text.String(), "3 lie in their 90 % interval") || !strings.Contains(text.String(), "device.flops on lenet") {
		t.Errorf("%v: %s", err, &text)
	}
	for _, say := range []string{"\nlearned: ", "device.flops on lenet ", "FLOP/s (90 %: ", "learned nothing, so do not trust these more than before: ", "the fitted point missed most is "} {
		if !strings.Contains(text.String(), say) {
			t.Errorf("nothing says %q:\n%s", say, &text)
		}
	}

	// The file is a cluster: it predicts the same times, and knows more than the transport.
	b, err := c.Cluster("a test")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "mine.yaml", string(b))
	if _, err := hardware.Load(hardware.Cluster, file); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	for i, p := range c.Points {
		if p.bytes > 0 {
			continue
		}
		again, err := point1(q.Measurements[i], []string{"cluster=" + file})
		if err != nil {
			t.Fatal(err)
		}
		steps := 4
		if again.config.DeviceLaw != "constant" && again.config.Workers > 1 {
			steps = max(6, min(24, 256/again.config.Workers))
		}
		time := func(ctx context.Context, c config.Config) (float64, error) {
			return updateTakes(ctx, c, 1, steps, Watch{})
		}
		took, err := Blended(t.Context(), again.config, time)
		if err != nil || math.Abs(took/p.Predicted-1) > 5e-3 {
			t.Errorf("%s: %v s by the file, %v; fitted %v", p.What, took, err, p.Predicted)
		}
		known, err := Propagate(t.Context(), again.config, 16, time)
		if err != nil {
			t.Fatal(err)
		}
		vague, _, err := config.ParseConfig(again.config.YAML()) // what a run keeps of it
		if err != nil {
			t.Fatal(err)
		}
		unknown, err := Propagate(t.Context(), vague, 16, time)
		if err != nil {
			t.Fatal(err)
		}
		if known.High/known.Low >= unknown.High/unknown.Low && p.config.Workers > 1 {
			t.Errorf("%s: %s with the file, %s without", p.What, known, unknown)
		}
	}
	// A key typed beside it counts.
	other, err := point1(q.Measurements[0], []string{"cluster=" + file, "device.flops=1e9"})
	if err != nil {
		t.Fatal(err)
	}
	if took, err := updateTakes(t.Context(), other.config, 1, 2, Watch{}); err != nil || took < 10*c.Points[0].Predicted {
		t.Errorf("of a device of 1e9 FLOPS: %v s, %v", took, err)
	}
}

// What points cannot tell stays where it was.
func TestCalibrationLeavesTheRest(t *testing.T) {
	t.Parallel()
	c, err := Calibrate(t.Context(), QuestionOfPoints{Keys: []string{slowNet}, Measurements: []Measurement{
		{Where: "one", Keys: []string{"timing=lenet", "workers=1"}, Seconds: 0.25},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Parameters {
		if p.Key == "device.flops on lenet" {
			if p.Told < 0.99 {
				t.Errorf("%+v", p)
			}
		} else if p.Told > 1e-3 || shown(p.Key, p.Before) != shown(p.Key, p.After) {
			t.Errorf("of one worker alone: %+v", p)
		}
	}
	if r := c.Points[0]; math.Abs(r.Predicted/0.25-1) > 0.01 {
		t.Errorf("%+v", r)
	}
}

// Links of which nobody says anything are fitted, by all-reduces of any network; what is
// said of them stays.
func TestCalibrationFindsTheLinks(t *testing.T) {
	t.Parallel()
	truth := config.Default()
	truth.Net, truth.Mode, truth.Weightless, truth.Timing, truth.Workers = "sim", "reduce", true, "lenet", 4
	for _, k := range [][2]string{{"transport", "unknown"}, {"network.bandwidth", "3GB/s"}, {"network.latency", "200us"}} {
		if err := truth.Set(k[0], k[1]); err != nil {
			t.Fatal(err)
		}
	}
	var all []Measurement
	for i, bytes := range []int{4 << 10, 64 << 10, 1 << 20, 64 << 20} {
		s, err := allReduceTakes(context.Background(), truth, bytes, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Measurement{Where: fmt.Sprint("a:", i), Seconds: s, Bytes: bytes, Keys: []string{"workers=4"}})
	}
	found := func(keys ...string) map[string]string {
		t.Helper()
		c, err := Calibrate(context.Background(), QuestionOfPoints{Keys: keys, Measurements: all})
		if err != nil {
			t.Fatal(err)
		}
		if c.LeftOut > 0.05 && len(keys) == 0 {
			t.Errorf("points are missed by %v", c.LeftOut)
		}
		is := map[string]string{}
		for _, p := range c.Parameters {
			is[p.Key] = p.After
		}
		file, err := c.Cluster("a")
		if err != nil || (is["network.latency"] != "") != strings.Contains(string(file), "    network.latency: {value: ") {
			t.Errorf("%v, %v:\n%s", err, is, file)
		}
		return is
	}
	is := found()
	carried := 1.0
	for _, k := range []string{"network.bandwidth", "constants.share"} {
		x, err := strconv.ParseFloat(strings.TrimSuffix(is[k], "B/s"), 64)
		if err != nil {
			t.Fatal(k, err)
		}
		carried *= x
	}
	latency, err := time.ParseDuration(is["network.latency"])
	if err != nil || math.Abs(latency.Seconds()/200e-6-1) > 0.1 || math.Abs(carried/(3e9*truth.Constants.Share)-1) > 0.1 {
		t.Errorf("a latency of %v and %v bytes a second, %v; want 200us and %v", latency, carried, err, 3e9*truth.Constants.Share)
	}
	if is := found("network.bandwidth=1Gbps", "network.latency=50us"); is["network.bandwidth"] != "" || is["network.latency"] != "" {
		t.Errorf("said and fitted: %v", is)
	}
}

func TestCalibrationRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    QuestionOfPoints
		want string
	}{
		{QuestionOfPoints{Measurements: []Measurement{{Where: "f:2", Keys: []string{"timing=model"}, Seconds: 1}}}, "model=resnet50"},
		{QuestionOfPoints{Measurements: []Measurement{{Where: "f:2", Keys: []string{"timing=lenet", "workers=x"}, Seconds: 1}}}, "f:2"},
		{QuestionOfPoints{Measurements: []Measurement{{Where: "f:2", Keys: []string{"timing=lenet"}, Seconds: 1}}, Fit: []int{2}}, "points 1 to 1"},
		{QuestionOfPoints{Measurements: []Measurement{{Where: "f:2", Keys: []string{"timing=lenet", "transport=gloo"}, Seconds: 1}, {Where: "f:3", Keys: []string{"timing=lenet", "transport=grpc"}, Seconds: 1}}}, "one transport at a time"},
		{QuestionOfPoints{Measurements: []Measurement{{Where: "f:2", Keys: []string{"timing=lenet"}, Seconds: 1}}, Keys: []string{"workers=2,4"}}, "one value"},
	} {
		_, err := Calibrate(t.Context(), c.q)
		var bad *config.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}

// A point that is fitted alone is predicted by no other: its table has no figure for that.
func TestCalibrateOnePoint(t *testing.T) {
	c, err := Calibrate(t.Context(), QuestionOfPoints{Measurements: []Measurement{{Where: "a:2", Keys: []string{"timing=lenet"}, Seconds: 0.3}}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.Write(&text, "box"); err != nil || c.LeftOut != 0 || c.Points[0].LeftOut != 0 || !strings.Contains(text.String(), "the others do not predict it") {
		t.Errorf("%v, left out %v: %s", err, c.Points[0].LeftOut, &text)
	}
}

// Values are shown with the units that people use.
func TestShown(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"network.bandwidth", "1.26e+10B/s", "101 Gb/s"},
		{"network.inside", "999600000B/s", "8 Gb/s"},
		{"constants.stream", "5.124e+09B/s", "5.12 GB/s"},
		{"device.flops on lenet", "1.5e+13", "15 TFLOP/s"},
		{"network.latency", "37.1234µs", "37µs"},
		{"constants.share", "0.81234", "0.812"},
		{"device.law", "constant", "constant"},
		{"network.bandwidth", "0B/s", "0 b/s"},
	} {
		if got := shown(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s is shown as %s, want %s", c[0], c[1], got, c[2])
		}
	}
	c := &Calibration{Points: []CalibrationPoint{{What: "1 MB", Fitted: true, Measured: 1, Predicted: 1.02, LeftOut: 3}, {What: "4 MB", Fitted: true, Measured: 1, Predicted: 0.81, LeftOut: 0.9}}, LeftOut: 0.6,
		Parameters: []CalibrationParameter{{Key: "network.bandwidth", After: "1.25e+10B/s", Low: "1.2e+10B/s", High: "1.3e+10B/s", Told: 0.9}, {Key: "constants.call", Told: 0.01}}}
	got := strings.Join(c.findings(), "\n")
	for _, want := range []string{"learned: network.bandwidth 100 Gb/s (90 %: 96 Gb/s to 104 Gb/s)", "do not trust these more than before: constants.call", "missed most is 2, 4 MB: -19.0 %; do not trust predictions near it", "most at point 1 (+200 %)"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing says %q:\n%s", want, got)
		}
	}
}

// A network of one's own, a file of layers or the folder of a run, has a speed of its own in
// the cluster that was learned.
func TestCalibrateOnLayersOfYours(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "layers.yaml")
	if err := os.WriteFile(file, []byte("kind: images\nlayers:\n- {name: fc, shape: [256, 64]}\n- {name: out, shape: [10, 256]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Calibrate(t.Context(), QuestionOfPoints{Measurements: []Measurement{
		{Where: "a:2", Keys: []string{"timing=" + file, "workers=1"}, Seconds: 0.3}, {Where: "a:3", Keys: []string{"timing=lenet", "workers=1"}, Seconds: 0.1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Cluster("mine")
	if err != nil || !strings.Contains(string(text), "layers") || !strings.Contains(c.Points[0].What, "1 workers") {
		t.Errorf("%v, %s\n%s", err, c.Points[0].What, text)
	}
}
