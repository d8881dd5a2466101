package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Browser is a Chromium without a screen that is to be started with these arguments, the
// page's address last; the test is skipped where there is none. What is on the path is a
// script, which starts the browser, which starts others: end ends all of them, as does the
// context, and fails the test where one is left.
func Browser(ctx context.Context, t *testing.T, args ...string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		profile := t.TempDir()
		cmd = exec.CommandContext(ctx, path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + profile}, args...)...)
		group(cmd)
		return cmd, func() {
			if cmd.Process == nil {
				return
			}
			_ = cmd.Cancel()
			if cmd.ProcessState == nil {
				_ = cmd.Wait()
			}
			for give := time.Now().Add(Enough); uses(profile); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(give) {
					t.Errorf("a process of the browser goes on, with %s", profile)
					return
				}
			}
		}
	}
	t.Skip("no Chromium on this machine")
	return nil, nil
}

// uses says whether some process was told of a folder, where the system lists processes
// with their arguments.
func uses(folder string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if line, _ := os.ReadFile(f); strings.Contains(string(line), folder) {
			return true
		}
	}
	return false
}
