package bench

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

// state is a process's in /proc: T is stopped.
func state(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(b[bytes.LastIndexByte(b, ')')+2:][:1])
}

// A worker stands still unless it is asked.
func TestWorkersStandStill(t *testing.T) {
	torch := fakeTorch(t, "well")
	c, err := Pick([]string{"mlp"}, 8)
	if err != nil {
		t.Fatal(err)
	}
	w, err := torch.start(t.Context(), torch.Variants(c[0], 1)[0], c[0], 1, 535818)
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	for range 3 {
		for end := time.Now().Add(10 * time.Second); state(t, w.cmd.Process.Pid) != "T"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("state %s", state(t, w.cmd.Process.Pid))
			}
		}
		if _, err := w.block(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
}
