package outside_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/outside"
)

// Where no rank's next event can come, the run ends and names the one that is waited for.
func TestStuck(t *testing.T) {
	defer outside.SetQuiet(100 * time.Millisecond)()
	_, err := served(t, func(path string) {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), "OUTSIDE_RANKS="+path)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // gradlab virtual does so, too
		in, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			_ = c.Wait()
		})
	})
	for _, want := range []string{"next event of rank 0 does not come", "its last one is all_reduce 7", "rank 1 waits for the time"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
