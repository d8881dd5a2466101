package progress

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) forward(d time.Duration) { c.t = c.t.Add(d) }

// plainDisplay writes into a buffer at the clock's time.
func plainDisplay(opts ...Option) (*Display, *bytes.Buffer, *clock) {
	c, b := &clock{time.Unix(1e9, 0)}, new(bytes.Buffer)
	d := New(b, opts...)
	d.now = func() time.Time { return c.t }
	return d, b, c
}

func TestPlainLines(t *testing.T) {
	d, out, c := plainDisplay()
	r := d.Run("quickstart codec=raw", 1200, 0)
	for step := 1; step <= 400; step++ {
		c.forward(time.Second / 20)
		r.Progress(record.Progress{Step: step, Loss: 0.41, BytesUp: 31000 * uint64(step), BytesDown: 31000 * uint64(step)})
		if step%40 == 0 {
			r.Eval(record.Eval{Step: step, Values: record.Values{"accuracy": 0.9123}}, sgd.Accuracy)
		}
	}
	r.Note("checkpoint at step %d", 400)
	r.Done("done: accuracy 0.9123")
	r.Done("twice")
	r.Progress(record.Progress{Step: 500})
	d.Close()

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 12 {
		t.Errorf("%d lines of 20 seconds with 10 evaluations", len(lines))
	}
	want := []string{
		"quickstart codec=raw  step 400/1200 (33 %)  20.0 steps/s  eta 40s  loss 0.41  acc 0.912  up 12.4 MB down 12.4 MB  staleness 0.0/0",
		"quickstart codec=raw  checkpoint at step 400",
		"quickstart codec=raw  done: accuracy 0.9123",
	}
	for i, w := range want {
		if got := lines[len(lines)-3+i]; got != w {
			t.Errorf("%s\nis not\n%s", got, w)
		}
	}
}

// A run that is dropped leaves what was told of it on the way, and nothing more.
func TestDroppedRun(t *testing.T) {
	d, out, c := plainDisplay()
	r := d.Run("ddl: resnet50", 110, 0)
	r.Steps(1, 110)
	c.forward(10 * time.Second)
	r.Steps(11, 110)
	r.Drop()
	c.forward(10 * time.Second)
	r.Steps(12, 110)
	r.Done("too late")
	d.Close()
	if got := out.String(); got != "ddl: resnet50  step 11/110 (10 %)  1.1 steps/s  eta 1m30s\n" {
		t.Errorf("%q", got)
	}
	(*Run)(nil).Drop()
}

func TestPlainLinesKeepTheirDistance(t *testing.T) {
	d, out, c := plainDisplay(Every(10 * time.Second))
	r := d.Run("run", 0, 0)
	for step := range 1000 {
		c.forward(100 * time.Millisecond)
		r.Progress(record.Progress{Step: step})
	}
	if n := strings.Count(out.String(), "\n"); n != 10 {
		t.Errorf("%d lines in 100 seconds", n)
	}
	out.Reset()
	for step := range 1000 {
		c.forward(10 * time.Millisecond)
		r.Eval(record.Eval{Step: 1000 + step}, sgd.Accuracy)
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines of evaluations in 10 seconds", n)
	}
}

func TestPlainTextHasNoControlCharacters(t *testing.T) {
	d, out, c := plainDisplay(Plain, Every(0))
	r := d.Run("evil\x1b[2J\rname\n", 0, 0)
	r.Note("a\tb\r\nc")
	r.Eval(record.Eval{Values: record.Values{"accuracy": math.NaN()}}, sgd.Accuracy)
	c.forward(time.Second)
	r.Progress(record.Progress{Loss: math.Inf(1)})
	r.Done("end\x07")
	d.Logf("%s", "log\x1b]0;title\x07\n")
	for i := range 11 {
		c.forward(time.Second)
		d.Download("set/file\x1b", int64(i)*1e6, -1)
		d.Download("set/other", int64(i)*1e6, 1e7)
	}
	d.Download("set/other", 1e7, 1e7)
	d.Close()
	d.Close()
	for _, c := range out.String() {
		if c != '\n' && unicode.IsControl(c) {
			t.Fatalf("control character %q in\n%q", c, out)
		}
	}
	for _, want := range []string{"step 0", "loss +Inf", "set/other  5.0 MB of 10.0 MB (50 %)  1.0 MB/s  eta 5.0s\n", "set/other  downloaded 10.0 MB\n"} {
		if strings.Count(out.String(), want) == 0 {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out.String(), "downloaded"); n != 1 {
		t.Errorf("a download ends %d times", n)
	}
}

// Work is shown with its speed and what is to come; what takes no second leaves no line.
func TestCount(t *testing.T) {
	d, out, c := plainDisplay()
	for i := range 12 {
		d.Count("decoding set", "pictures", int64(i)*1000, 12000)
		c.forward(2 * time.Second)
	}
	d.Count("decoding set", "pictures", 12000, 12000)
	d.Count("reading set/a.tar", "", 1e6, 4e6)
	d.Count("reading set/a.tar", "", 4e6, 4e6)
	want := []string{"decoding set  3000 of 12000 pictures (25 %)  500 pictures/s  eta 18s", "decoding set  12000 pictures in 24s"}
	for _, w := range want {
		if strings.Count(out.String(), w+"\n") != 1 {
			t.Errorf("no %q in\n%s", w, out)
		}
	}
	if strings.Contains(out.String(), "a.tar") {
		t.Errorf("brief work left a line:\n%s", out)
	}
	// The same work again is shown again.
	d.Count("decoding set", "pictures", 0, 12000)
	c.forward(time.Minute)
	d.Count("decoding set", "pictures", 12000, 12000)
	if !strings.Contains(out.String(), "decoding set  12000 pictures in 1m00s\n") {
		t.Errorf("not shown again:\n%s", out)
	}
}

func TestNothingIsShownQuietly(t *testing.T) {
	var none *Display
	var b bytes.Buffer
	for _, d := range []*Display{none, New(&b, Quiet), New(nil)} {
		r := d.Run("run", 10, 0)
		r.Progress(record.Progress{Step: 1})
		r.Eval(record.Eval{}, sgd.Accuracy)
		r.Note("note")
		r.Done("done")
		d.Logf("log")
		d.Download("file", 1, 2)
		d.Count("decoding set", "pictures", 1, 2)
		d.Close()
	}
	if b.Len() > 0 {
		t.Errorf("%q", &b)
	}
}

func TestResumedRunTellsTheSpeedOfNow(t *testing.T) {
	d, out, c := plainDisplay()
	r := d.Run("run", 2000, 1000)
	c.forward(10 * time.Second)
	r.Progress(record.Progress{Step: 1010})
	if got := out.String(); !strings.Contains(got, "step 1010/2000 (50 %)  1.0 steps/s  eta 16m30s") {
		t.Error(got)
	}
}

func TestTerminal(t *testing.T) {
	var out locked
	d := New(&out, Terminal)
	c := clock{time.Unix(1e9, 0)}
	d.now = func() time.Time { return c.t }
	a, b := d.Run("codec=raw", 1200, 0), d.Run("codec=feedback(topk(keep=0.01))", 0, 0)
	c.forward(20 * time.Second)
	a.Progress(record.Progress{Step: 400, Loss: 0.41, BytesUp: 12.4e6})
	a.Eval(record.Eval{Step: 400, Values: record.Values{"accuracy": 0.9123}}, sgd.Accuracy)
	b.Progress(record.Progress{Step: 77})
	d.Download("mnist/train", 1e6, 4e6)
	time.Sleep(500 * time.Millisecond)
	d.Logf("between")
	a.Done("done: 0.98")
	d.Download("mnist/train", 4e6, 4e6)
	time.Sleep(300 * time.Millisecond)
	d.Close()
	d.Close()
	b.Done("failed: later")
	d.Run("plain", 1, 0).Done("after all")
	s := out.String()
	for _, want := range []string{"codec=raw ", "[====", "step 400/1200 (33 %)", "acc 0.912", "step 77", "1.0 MB of 4.0 MB (25 %)", "between\n",
		"codec=raw  done: 0.98\n", "mnist/train  downloaded 4.0 MB\n", "codec=feedback(topk(keep=0.01))  failed: later\nplain  after all\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%q", want, s)
		}
	}
}

func TestRowsFitTheTerminal(t *testing.T) {
	d := New(io.Discard, Terminal)
	defer d.Close()
	name := strings.Repeat("long ", 20)
	r := d.Run(name, 100, 0)
	r.Progress(record.Progress{Step: 50, Loss: 1.23456})
	for width := range 200 {
		var b strings.Builder
		st := statistics(width)
		if err := r.row.draw(&b, st); err != nil {
			t.Fatal(err)
		}
		if n := len([]rune(b.String())); n > width {
			t.Errorf("%d characters on a terminal of %d: %q", n, width, b.String())
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	for _, style := range []Option{Plain, Terminal} {
		var out locked
		d := New(&out, style, Every(0))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				r := d.Run(fmt.Sprint("run ", i), 50, 0)
				for step := range 50 {
					r.Progress(record.Progress{Step: step})
					r.Eval(record.Eval{Step: step}, sgd.Accuracy)
					d.Download(fmt.Sprint("file ", i%3), int64(step), 49)
				}
				r.Note("note")
				if i == 5 {
					d.Close()
				}
				r.Done("done")
			})
		}
		wg.Wait()
		d.Close()
		for i := range 8 {
			if n := strings.Count(out.String(), fmt.Sprintf("run %d  done\n", i)); n != 1 {
				t.Errorf("run %d ended %d times", i, n)
			}
		}
	}
}

func TestFilesAndPipesAreNoTerminals(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) || isTerminal(&bytes.Buffer{}) {
		t.Error("a file is taken for a terminal")
	}
}

func TestFormats(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 12_400_000: "12.4 MB", 999_960: "1.0 MB", math.MaxUint64: "18.4 EB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0s", 5e-9: "5ns", 3e-5: "30µs", 0.0004: "400µs", 0.9999e-3: "1.0ms", 0.0014955: "1.5ms", 1.6e-6: "1.6µs", 0.42: "420ms", 0.9999: "1.0s", 4.2: "4.2s", 9.96: "10s",
		42: "42s", 59.7: "1m00s", 66: "1m06s", 3599.6: "1h00m", 7500: "2h05m", 273600: "3d04h", -66: "-1m06s", math.Inf(1): "?"} {
		if got := Seconds(s); got != want {
			t.Errorf("%g: %s, not %s", s, got, want)
		}
	}
	for r, want := range map[float64]string{0: "0.0 steps/s", 12.14: "12.1 steps/s", 1234: "1234 steps/s", 0.05: "3.0 steps/min", math.Inf(1): "? steps/s"} {
		if got := Rate(r, "steps"); got != want {
			t.Errorf("%g: %s, not %s", r, got, want)
		}
	}
	for v, want := range map[float64]string{0.0747: "0.0747", 7.8217: "7.8217", -2: "-2.0000", 3.2089e14: "3.209e+14", math.Inf(1): "+Inf", math.MaxFloat64: "not finite"} {
		if got := Value(sgd.Loss, v); got != want {
			t.Errorf("%g: %s, not %s", v, got, want)
		}
	}
}

// Counts that come in a bunch, as they do when who reports was kept waiting, do
// not look like speed.
func TestMeterIsNotFooledByBunches(t *testing.T) {
	var m meter
	now := time.Unix(1, 0)
	m.add(now, 0)
	count := 0.0
	for range 50 {
		now = now.Add(200 * time.Millisecond)
		for range 4 { // twenty at once, every fifth of a second
			count += 5
			now = now.Add(time.Microsecond)
			m.add(now, count)
			if m.rate < 20 || m.rate > 130 {
				t.Fatalf("%v a second after %v", m.rate, count)
			}
		}
	}
}
