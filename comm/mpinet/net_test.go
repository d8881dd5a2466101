//go:build mpi

package mpinet_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/commtest"
	"github.com/gradlab/gradlab/comm/mpinet"
)

// Tests under a name that begins with Rank run in each process of a job that a test
// under another name starts.
const child = "GRADLAB_TEST_RANK"

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(child) != "" && code == 0 {
		mpinet.End()
	}
	os.Exit(code)
}

// job starts the test of that name in n processes of one job, and returns what they say.
func job(t *testing.T, n int, test string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "mpirun", "--oversubscribe", "-n", fmt.Sprint(n), os.Args[0],
		"-test.run", "^"+test+"$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), child+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// rank is which process of a job this is; elsewhere the test is none.
func rank(t *testing.T) mpinet.World {
	t.Helper()
	if os.Getenv(child) == "" {
		t.Skip("this is a part of another test")
	}
	w, err := mpinet.Start()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// passes runs a test in n processes, in each of which it has to pass.
func passes(t *testing.T, n int, test string) {
	t.Helper()
	out, err := job(t, n, test)
	if err != nil || strings.Count(out, "--- PASS: "+test+" (") != n {
		t.Fatalf("%v\n%s", err, out)
	}
}

// each is a process for each rank.
func each(n int) (ranks [][]int) {
	for r := range n {
		ranks = append(ranks, []int{r})
	}
	return ranks
}

// run runs those programs whose ranks are here.
func run(ctx context.Context, c mpinet.Config, w mpinet.World, programs []comm.Program) error {
	n, err := mpinet.New(c)
	if err != nil {
		return err
	}
	var mine []comm.Program
	if w.Rank < len(c.Ranks) {
		for _, r := range c.Ranks[w.Rank] {
			mine = append(mine, programs[r])
		}
	}
	return n.Run(ctx, mine)
}

// gather tells all processes what each of them says.
func gather(t *testing.T, w mpinet.World, text string) []string {
	said := make([]string, w.Size)
	program := func(ctx context.Context, h comm.Host) error {
		for to := range w.Size {
			b := comm.NewBuffer(len(text))
			copy(b.B, text)
			if err := h.Send(ctx, to, comm.NewFrame(comm.Header{Kind: comm.Report}, b)); err != nil {
				return err
			}
		}
		for from := range w.Size {
			f, err := h.Recv(ctx, from, comm.AnyTag)
			if err != nil {
				return err
			}
			said[from] = string(f.Body)
			f.Release()
		}
		return nil
	}
	if err := run(context.WithoutCancel(t.Context()), mpinet.Config{Ranks: each(w.Size)}, w, slices.Repeat([]comm.Program{program}, w.Size)); err != nil {
		t.Fatal(err)
	}
	return said
}

// together runs programs and returns what that returned in any process.
func together(ctx context.Context, t *testing.T, w mpinet.World, c mpinet.Config, programs []comm.Program) error {
	err := run(ctx, c, w, programs)
	text := ""
	if err != nil {
		text = err.Error()
	}
	for _, said := range gather(t, w, text) {
		if err == nil && said != "" {
			err = errors.New(said)
		}
	}
	return err
}

// A net of four processes, and one of two that host several ranks each.
func TestNet(t *testing.T) {
	t.Run("a rank each", func(t *testing.T) { passes(t, 4, "TestRankSuite") })
	t.Run("two ranks each", func(t *testing.T) { passes(t, 2, "TestRankSuite") })
}

func TestRankSuite(t *testing.T) {
	w := rank(t)
	commtest.Spread(t, func(r int) bool { return r%w.Size == w.Rank }, func(ctx context.Context, programs []comm.Program) error {
		ranks := make([][]int, w.Size)
		for r := range programs {
			ranks[r%w.Size] = append(ranks[r%w.Size], r)
		}
		return together(ctx, t, w, mpinet.Config{Ranks: ranks}, programs)
	})
}

// All-reduces of MPI: sums, maxima and whole numbers, with flags; at once with frames.
func TestFolds(t *testing.T) { passes(t, 3, "TestRankFolds") }

func TestRankFolds(t *testing.T) {
	w := rank(t)
	const n = 1000
	group := []int{0, 1, 2}
	program := func(ctx context.Context, h comm.Host) error {
		f := comm.Folding(h)
		if f == nil || !f.Folds(group) || f.Folds([]int{0, 1}) || f.Folds([]int{0, 1, 1}) {
			return errors.New("who folds with whom")
		}
		for step, by := range []comm.Fold{comm.SumFloat32, comm.MaxFloat32, comm.SumInt8, comm.SumInt16} {
			x := make([]byte, n*by.Width())
			want := make([]byte, len(x))
			for i := range n {
				own, all := i%7+h.Rank(), 3*(i%7)+3
				if by == comm.MaxFloat32 {
					all = i%7 + 2
				}
				put(x, i, by, own)
				put(want, i, by, all)
			}
			flags, err := f.FoldAll(ctx, group, comm.Header{Tag: 4, Step: uint64(step), Flags: 1 << h.Rank()}, x, by)
			if err != nil {
				return err
			}
			if !bytes.Equal(x, want) || flags != 7 {
				return fmt.Errorf("fold %d: %v, flags %b", by, x[:32], flags)
			}
		}
		least := uint64(2 * 2 * n * (4 + 4 + 1 + 2) / 3)
		if c := h.Traffic().Count(); c.SentBytes[comm.Gradient]+4 < least || c.SentBytes[comm.Gradient] > least || c.RecvBytes != c.SentBytes {
			return fmt.Errorf("%d bytes sent, %d received, want %d", c.SentBytes, c.RecvBytes, least)
		}
		return nil
	}
	if err := run(t.Context(), mpinet.Config{Ranks: each(3)}, w, []comm.Program{program, program, program}); err != nil {
		t.Fatal(err)
	}

	// Ranks that fold different things learn it, and none gets the sum of both.
	differ := func(ctx context.Context, h comm.Host) error {
		_, err := comm.Folding(h).FoldAll(ctx, group, comm.Header{Step: uint64(h.Rank() / 2)}, make([]byte, 8), comm.SumFloat32)
		if err == nil || !strings.Contains(err.Error(), "something else") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}
	if err := run(t.Context(), mpinet.Config{Ranks: each(3)}, w, []comm.Program{differ, differ, differ}); err != nil {
		t.Error(err)
	}
}

// Who waits for a rank that has failed hears of it. The all-reduce is under way for ever,
// so that the process can only end: mpirun then ends all.
func TestFoldWithoutAll(t *testing.T) {
	out, err := job(t, 3, "TestRankFoldWithoutAll")
	if err == nil || !strings.Contains(out, "heard: rank 0, main: rank 1 is gone: rank 1, main: boom") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRankFoldWithoutAll(t *testing.T) {
	w := rank(t)
	waits := func(ctx context.Context, h comm.Host) error {
		if h.Rank() == 1 {
			return errors.New("boom")
		}
		_, err := comm.Folding(h).FoldAll(ctx, []int{0, 1, 2}, comm.Header{}, make([]byte, 8), comm.SumFloat32)
		return err
	}
	c := mpinet.Config{Ranks: each(3)}
	t.Log("heard:", run(t.Context(), c, w, []comm.Program{waits, waits, waits}))
	if err := run(t.Context(), c, w, []comm.Program{waits, waits, waits}); w.Rank != 1 && (err == nil || !strings.Contains(err.Error(), "an earlier run")) {
		t.Errorf("got %v", err)
	}
}

// put writes element i of a vector.
func put(x []byte, i int, by comm.Fold, v int) {
	switch by {
	case comm.SumInt8:
		x[i] = byte(v)
	case comm.SumInt16:
		binary.NativeEndian.PutUint16(x[2*i:], uint16(v))
	default:
		binary.NativeEndian.PutUint32(x[4*i:], math.Float32bits(float32(v)))
	}
}

// Processes that were started for different runs learn what differs, all of them.
func TestMismatch(t *testing.T) { passes(t, 3, "TestRankMismatch") }

func TestRankMismatch(t *testing.T) {
	w := rank(t)
	idle := func(context.Context, comm.Host) error { return errors.New("it began") }
	c := mpinet.Config{Ranks: each(3), Identity: []comm.Field{{Name: "seed", Value: "1"}}}
	if w.Rank == 2 {
		c.Identity[0].Value = "7"
	}
	err := run(t.Context(), c, w, []comm.Program{idle, idle, idle})
	var differ *comm.MismatchError
	if !errors.As(err, &differ) || !slices.Equal(differ.Fields, []comm.Difference{{Name: "seed", Coordinator: "1", Joiner: "7"}}) || differ.Ranks[0] != 2 {
		t.Errorf("got %v", err)
	}
}

// A fault in a program is an error of its rank, whatever MPI does with signals.
func TestFault(t *testing.T) { passes(t, 2, "TestRankFault") }

func TestRankFault(t *testing.T) {
	w := rank(t)
	fails := func(_ context.Context, h comm.Host) error {
		var nobody *comm.Traffic
		if h.Rank() == 1 {
			nobody.Wire(1, 1)
		}
		return nil
	}
	err := together(t.Context(), t, w, mpinet.Config{Ranks: each(2)}, []comm.Program{fails, fails})
	if err == nil || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v", err)
	}
}

// A process that does not come is waited for until the timeout. Then mpirun ends all.
func TestMissing(t *testing.T) {
	out, err := job(t, 2, "TestRankMissing")
	if err == nil || !strings.Contains(out, "not all processes of the job came within 100ms") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRankMissing(t *testing.T) {
	w := rank(t)
	if w.Rank == 1 {
		select {} // mpirun ends it
	}
	idle := func(context.Context, comm.Host) error { return nil }
	t.Fatal(run(t.Context(), mpinet.Config{Ranks: each(2), JoinTimeout: 100 * time.Millisecond}, w, []comm.Program{idle, idle}))
}

// What cannot be is said before anything is waited for.
func TestConfig(t *testing.T) { passes(t, 1, "TestRankConfig") }

func TestRankConfig(t *testing.T) {
	w := rank(t)
	for want, c := range map[string]mpinet.Config{
		"ranks for 2 processes": {Ranks: each(2)},
		"no ranks":              {},
		"once":                  {Ranks: [][]int{{0, 2}}},
		"Deadline":              {Ranks: each(1), Deadline: -1},
		"QueueBytes":            {Ranks: each(1), QueueBytes: -1},
	} {
		if _, err := mpinet.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	idle := func(context.Context, comm.Host) error { return nil }
	if err := run(t.Context(), mpinet.Config{Ranks: each(1)}, w, []comm.Program{idle}); err != nil {
		t.Error(err)
	}
}
