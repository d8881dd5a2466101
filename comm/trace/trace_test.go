package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// pass is a run in which rank 0 computes for 3 ms and sends rank 1 two frames of
// 1 MB, which it waits for; at 1 GB/s and 100 µs.
func pass(t *testing.T, r *Recorder) {
	t.Helper()
	net := &sim.Net{Probe: r, Network: &sim.Fair{Bandwidth: 1e9, Latency: 100 * time.Microsecond}}
	err := net.Run(context.Background(), []comm.Program{
		func(ctx context.Context, h comm.Host) error {
			work := comm.Work{Run: func(func(int) error) error { return nil }, Cost: []time.Duration{time.Millisecond, 2 * time.Millisecond}}
			if err := h.Do(ctx, work); err != nil {
				return err
			}
			for step := range 2 {
				f := comm.Frame{Header: comm.Header{Kind: comm.Gradient, Tag: 7, Step: uint64(step)}, Billed: 1e6}
				if err := h.Send(ctx, 1, f); err != nil {
					return err
				}
			}
			return h.Sleep(ctx, time.Millisecond)
		},
		func(ctx context.Context, h comm.Host) error {
			for range 2 {
				if _, err := h.Recv(ctx, 0, 7); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []sim.Link{
		{Kind: "nic", Index: 0, Out: true, Capacity: 1e9, Bytes: 2e6, Busy: 2 * time.Millisecond}, {Kind: "nic", Index: 0, Capacity: 1e9},
		{Kind: "nic", Index: 1, Out: true, Capacity: 1e9}, {Kind: "nic", Index: 1, Capacity: 1e9, Bytes: 2e6, Busy: 2 * time.Millisecond},
	}
	if got := net.Links(); len(got) < 4 || fmt.Sprint(got[:4]) != fmt.Sprint(want) {
		t.Errorf("links %v, want %v", got, want)
	}
}

// What is in the file is what happened, when it did.
func TestChrome(t *testing.T) {
	r := &Recorder{Names: []string{"worker 0", "worker 1"}}
	pass(t, r)
	var b bytes.Buffer
	if err := r.Chrome(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph, Name string
			Pid, Tid int
			Ts, Dur  float64
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	var got []string
	for _, e := range doc.TraceEvents {
		switch e.Ph {
		case "X":
			got = append(got, fmt.Sprintf("%d/%d %s %g+%g %v", e.Pid, e.Tid, e.Name, e.Ts, e.Dur, e.Args["bytes"]))
		case "M":
			if n, ok := e.Args["name"]; ok {
				got = append(got, fmt.Sprintf("%d/%d is %s", e.Pid, e.Tid, n))
			}
		}
	}
	want := []string{
		"0/0 is rank 0: worker 0", "1/0 is rank 1: worker 1",
		"0/1 is main", "0/1 compute 0+1000 <nil>", "0/1 compute 1000+2000 <nil>", "0/1 sleep 3000+1000 <nil>",
		"1/1 is main", "1/1 wait for rank 0 0+4100 <nil>", "1/1 wait for rank 0 4100+1000 <nil>",
		"0/1001 is to rank 1", "0/1001 gradient 3000+1000 1e+06", "0/1001 gradient 4000+1000 1e+06",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The picture is well-formed, has a row a rank and what they did.
func TestSVG(t *testing.T) {
	r := &Recorder{Names: []string{"worker <0>", "worker 1"}}
	pass(t, r)
	var b bytes.Buffer
	if err := r.SVG(&b, Window{}); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	}
	for colour, n := range map[string]int{"compute": 1, "wait": 1, "send": 1, "sleep": 1} { // neighbours are one
		if got := strings.Count(b.String(), colours[colour]) - 1; got != n { // one in the legend
			t.Errorf("%d bars of %s, want %d", got, colour, n)
		}
	}
	for _, text := range []string{"worker &lt;0&gt;", ">worker 1<", ">5ms<"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %s in\n%s", text, b.String())
		}
	}
}

// A picture of the beginning says of how much it is the beginning, one of
// everything says nothing.
func TestPictureOfTheBeginning(t *testing.T) {
	whole, short := &Recorder{}, &Recorder{Limit: 3} // 5.1 ms
	pass(t, whole)
	pass(t, short)
	many := &Recorder{}
	for i := range 2 * mostItems {
		from := time.Duration(i) * time.Millisecond
		many.Span(sim.Span{Doing: sim.Computing, From: from, To: from + time.Millisecond})
	}
	for _, c := range []struct {
		r    *Recorder
		want string
	}{{whole, ""}, {short, ">the first 4ms of 5.1ms<"}, {many, ">the first 4s of 8s<"}} {
		var b bytes.Buffer
		if err := c.r.SVG(&b, Window{}); err != nil {
			t.Fatal(err)
		}
		if c.want == "" && strings.Contains(b.String(), "the first") || !strings.Contains(b.String(), c.want) {
			t.Errorf("no %q in\n%s", c.want, b.String())
		}
	}
}

// The first ones are kept, and the others are counted.
func TestLimit(t *testing.T) {
	r := &Recorder{Limit: 3}
	pass(t, r)
	if n := len(r.spans) + len(r.frames); n != 3 || r.Dropped() != 4 {
		t.Errorf("%d kept, %d dropped", n, r.Dropped())
	}
	one := &Recorder{Names: []string{"only"}}
	pass(t, one)
	for _, s := range one.spans {
		if s.Rank != 0 {
			t.Errorf("%+v was recorded", s)
		}
	}
	var b bytes.Buffer
	if err := (&Recorder{}).Chrome(&b); err != nil || !json.Valid(b.Bytes()) {
		t.Errorf("an empty trace: %v\n%s", err, b.String())
	}
}
