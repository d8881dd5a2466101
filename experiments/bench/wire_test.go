package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/shm"
	"github.com/gradlab/gradlab/internal/patience"
)

// small is the smallest real benchmark of the wire.
func small(t *testing.T, how string) WireOptions {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := WireOptions{
		Sections: []string{SectionAllReduce}, Procs: []int{2}, Sizes: []int{4096, 8192},
		Links: []grpcnet.Links{grpcnet.LinksGRPC}, Topology: "auto", Codecs: []string{"raw", "onebit"},
		Rounds: 2, Seconds: 0.01, Self: []string{self}, Environ: append(os.Environ(), fakeRankVariable+"="+how),
		Command: []string{"gradlab", "bench"}, Logf: t.Logf,
	}
	if shm.Supported {
		o.Links = append(o.Links, grpcnet.LinksSHM)
	}
	return o
}

func TestWireCheck(t *testing.T) {
	for name, change := range map[string]func(*WireOptions){
		"section":    func(o *WireOptions) { o.Sections = []string{"broadcast"} },
		"no section": func(o *WireOptions) { o.Sections = nil },
		"one":        func(o *WireOptions) { o.Procs = []int{1} },
		"many":       func(o *WireOptions) { o.Procs = []int{2, 65} },
		"no procs":   func(o *WireOptions) { o.Procs = nil },
		"odd size":   func(o *WireOptions) { o.Sizes = []int{4097} },
		"no bytes":   func(o *WireOptions) { o.Sizes = []int{0} },
		"huge":       func(o *WireOptions) { o.Sizes = []int{1<<30 + 4} },
		"links":      func(o *WireOptions) { o.Links = []grpcnet.Links{"auto"} },
		"topology":   func(o *WireOptions) { o.Topology = "star" },
		"rounds":     func(o *WireOptions) { o.Rounds = 0 },
		"seconds":    func(o *WireOptions) { o.Seconds = 0 },
		"for ever":   func(o *WireOptions) { o.Seconds = 1e9 },
	} {
		o := small(t, "well")
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if change(&o); o.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{"4": 4, "4KB": 4096, "64 kb": 65536, "16MB": 16 << 20, "1024MB": 1 << 30} {
		if n, err := ParseSize(text); n != want || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "MB", "-4", "0", "4GB", "1.5MB", "1025MB", "9999999999999999999"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}

func TestAllReducesWithPeers(t *testing.T) {
	patience.Alone(t)
	o := small(t, "well")
	o.Procs = []int{2, 3}
	o.Torch = fakeTorch(t, "well")
	var err error
	if o.OpenMPI, err = fakeOpenMPI(t, "well"); err != nil {
		t.Skip(err) // no named pipes
	}
	r, err := Wire(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	peers := []string{"gloo", "ompi shm", "ompi tcp"}
	var names []string
	for _, l := range o.Links {
		names = append(names, string(l))
	}
	ours := len(names)
	names = append(names, "gloo", "ompi tcp", "ompi shm")
	if len(r.AllReduces) != len(names)*4 {
		t.Fatalf("%+v", r.AllReduces)
	}
	for i, row := range r.AllReduces {
		k := i % len(names)
		n, size := 2+i/len(names)/2, o.Sizes[i/len(names)%2]
		if row.Name != names[k] || row.Procs != n || row.Bytes != size || row.Error != "" || !(row.Micros.Median > 0) {
			t.Errorf("%+v", row)
		}
		if want := float64(size) * 2 * float64(n-1) / float64(n) / row.Micros.Median / 1e3; row.BusGBs != want {
			t.Errorf("%v GB/s, want %v", row.BusGBs, want)
		}
		if k >= ours {
			if row.Topology != "" || row.Ratio != nil || row.Micros.Median < 200 { // it sleeps
				t.Errorf("%+v", row)
			}
			continue
		}
		if row.Topology != "doubling" || len(row.Ratio) != len(peers) {
			t.Errorf("%+v", row)
		}
		for _, p := range peers {
			if s := row.Ratio[p]; !(s.Min > 0 && s.Min <= s.Median && s.Median <= s.Max) {
				t.Errorf("ratio to %s: %+v", p, s)
			}
		}
	}
	if !slices.Equal(r.Peers, []string{"gloo of PyTorch 0.0-fake", "fake MPI"}) {
		t.Error(r.Peers)
	}
	var text bytes.Buffer
	if err := r.WriteTables(&text, "csv"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"grpc,3,8 KB,", "times gloo", "times ompi shm", "ompi tcp,2,4 KB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// A peer that fails is told and left out; ours is measured all the same.
func TestWirePeersThatFail(t *testing.T) {
	patience.Alone(t)
	t.Run("wrong sums", func(t *testing.T) {
		o := small(t, "well")
		o.Torch = fakeTorch(t, "wrong sums")
		r, err := Wire(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "gloo, allreduce 8192: gloo, rank 0: wrong sums") {
			t.Fatal(err)
		}
		for _, row := range r.AllReduces {
			if bad := row.Name == "gloo" && row.Bytes == 8192; bad != (row.Error != "") {
				t.Errorf("%+v", row)
			}
		}
		var text bytes.Buffer
		if err := r.WriteTables(&text, "box"); err != nil || strings.Count(text.String(), "failed") != 1 {
			t.Errorf("%v\n%s", err, text.String())
		}
	})
	t.Run("gloo missing", func(t *testing.T) {
		o := small(t, "well")
		o.Torch = fakeTorch(t, "no gloo")
		r, err := Wire(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "no gloo in this build") || len(r.AllReduces) == 0 || r.AllReduces[0].Error != "" {
			t.Fatalf("%v\n%+v", err, r)
		}
	})
	t.Run("mpirun dies", func(t *testing.T) {
		o := small(t, "well")
		var err error
		if o.OpenMPI, err = fakeOpenMPI(t, "dies"); err != nil {
			t.Fatal(err)
		}
		r, err := Wire(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "Open MPI over tcp: exit status 5\nnot enough slots") || r.AllReduces[0].Error != "" {
			t.Fatalf("%v\n%+v", err, r)
		}
	})
	t.Run("mpicc fails", func(t *testing.T) {
		if _, err := fakeOpenMPI(t, "no headers"); err == nil || !strings.Contains(err.Error(), "mpi.h: no such file") {
			t.Fatal(err)
		}
	})
	t.Run("no mpicc", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := FindOpenMPI(t.Context(), nil); err == nil || !strings.Contains(err.Error(), openMPIInstall) {
			t.Fatal(err)
		}
	})
	t.Run("ours does not start", func(t *testing.T) {
		o := small(t, "broken")
		r, err := Wire(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "ours over grpc, rank 0: exit status 3\nno such program") || r.AllReduces[0].Error == "" {
			t.Fatalf("%v\n%+v", err, r)
		}
	})
}

func TestStreams(t *testing.T) {
	o := small(t, "well")
	o.Sections, o.Rounds = []string{SectionStream}, 1
	o.Links = append(o.Links, LinksTLS)
	r, err := Wire(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Streams) != (len(o.Links)+2)*len(streamSizes) || len(r.RoundTrips) != (len(o.Links)+2)*len(tripSizes) {
		t.Fatalf("%+v", r)
	}
	for _, row := range r.Streams {
		bare := row.Name == bareTCP || row.Name == bareTLS
		if !(row.GBs.Median > 0 && row.Share.Median > 0) || bare && row.Share.Median != 1 {
			t.Errorf("%+v", row)
		}
	}
	for _, row := range r.RoundTrips {
		if !(row.Micros.Median > 0 && row.Micros.Median < 1e6) {
			t.Errorf("%+v", row)
		}
	}
	var text bytes.Buffer
	if err := r.WriteTables(&text, "csv"); err != nil || !strings.Contains(text.String(), "of bare") || !strings.Contains(text.String(), "bare tcp,64 B") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestSteps(t *testing.T) {
	o := small(t, "well")
	o.Sections, o.Rounds = []string{SectionStep}, 1
	o.Codecs = append(o.Codecs, "nosuch")
	o.Torch = fakeTorch(t, "well")
	r, err := Wire(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `step nosuch: ours over grpc, rank 0: `) {
		t.Fatal(err)
	}
	if len(r.Steps) != 3*len(o.Links)+len(glooHooks) {
		t.Fatalf("%+v", r.Steps)
	}
	for _, row := range r.Steps {
		switch {
		case row.Name == "nosuch":
			if row.Error == "" {
				t.Errorf("%+v", row)
			}
		case row.Error != "" || !(row.Millis.Median > 0.05):
			t.Errorf("%+v", row)
		case row.Over != "gloo" && !(row.Ratio["gloo allreduce"].Median > 0):
			t.Errorf("%+v", row)
		}
	}
	var text bytes.Buffer
	if err := r.WriteTables(&text, "csv"); err != nil || !strings.Contains(text.String(), "onebit,grpc,") || !strings.Contains(text.String(), "powersgd1,gloo,") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// The end of the context ends everybody at once.
func TestWireStops(t *testing.T) {
	o := small(t, "well")
	o.Seconds = 600
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := Wire(ctx, o)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// Real peers compute what ours do: each checks its sums.
func TestRealPeers(t *testing.T) {
	if !patience.Long {
		t.Skip("starts PyTorch and Open MPI")
	}
	o := small(t, "well")
	o.Sections, o.Procs, o.Sizes = []string{SectionAllReduce}, []int{3}, []int{4, 1 << 20}
	var missing [2]error
	if o.Torch, missing[0] = FindTorch(t.Context(), "", os.Environ()); missing[0] != nil {
		t.Log(missing[0])
	}
	if o.OpenMPI, missing[1] = FindOpenMPI(t.Context(), os.Environ()); missing[1] != nil {
		t.Log(missing[1])
	} else {
		defer o.OpenMPI.Close()
	}
	if _, err := Wire(t.Context(), o); err != nil {
		t.Error(err)
	}
}
