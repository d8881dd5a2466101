package experiments

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// A rank that ends before the run began is named, with what it said; so is why it
// crashed.
func TestRankEndsEarly(t *testing.T) {
	t.Parallel()
	run := mustRuns(t, small, "net=grpc", "mode=reduce")[0]
	_, err := Execute(context.Background(), run, Options{Recipe: "test", Out: t.TempDir(), Join: func(rank int, _, _, _ string) Command {
		if rank != 1 {
			return Command{Path: "/bin/sleep", Args: []string{"100"}}
		}
		return Command{Path: "/bin/sh", Args: []string{"-c", "echo 'gradlab: no data' >&2; exit 2"}}
	}})
	if err == nil || !strings.Contains(firstLine(err.Error()), "rank 1 ended before the run began") || !strings.Contains(err.Error(), "no data") || strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	stack := strings.Repeat("main.f()\n\t/src/main.go:1 +0x1\n", 50)
	for _, c := range []struct{ said, want, not string }{
		{"gradlab: stopping at the next step\ngrpcnet: rank 1 is gone\npanic: index out of range [recovered]\n\ngoroutine 1 [running]:\n" + stack, "panic: index", "stopping"},
		{"grpcnet: something\ngradlab: rank 1, main: panic: no\n" + stack, "gradlab: rank 1, main: panic: no", "something"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n", "3\n  4\n  5\n  6\n  7\n  8", "2"},
		{"short", "short", "\n"},
		{"", "", "\n"},
	} {
		var x tail
		for _, b := range []byte(c.said) { // as a crash is written
			fmt.Fprintf(&x, "%c", b)
		}
		if got := x.String(); !strings.HasPrefix(got, c.want) || strings.Contains(got, c.not) || strings.Count(got, "\n") >= quoted {
			t.Errorf("%.40q: %q", c.said, got)
		}
	}
}
