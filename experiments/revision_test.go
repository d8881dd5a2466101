package experiments

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// gitIn runs git in a folder, or skips the test where there is none.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, b)
	}
	return strings.TrimSpace(string(b))
}

func TestRevisionAt(t *testing.T) {
	dir := t.TempDir()
	if r, m := revisionAt(filepath.Join(dir, "nowhere")); r != "" || m {
		t.Errorf("a folder that is not there is at %q, %v", r, m)
	}
	gitIn(t, dir, "init", "-q")
	src, copied := filepath.Join(dir, "src"), filepath.Join(dir, "vendored")
	for _, d := range []string{src, copied} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "a.go"), []byte("package a\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := revisionAt(src); r != "" {
		t.Errorf("a repository without a commit is at %q", r)
	}
	gitIn(t, dir, "add", "src")
	gitIn(t, dir, "commit", "-qm", "a")
	head := gitIn(t, dir, "rev-parse", "HEAD")
	if r, m := revisionAt(src); r != head || m {
		t.Errorf("at %q, modified %v; want %s", r, m, head)
	}
	if r, _ := revisionAt(copied); r != "" {
		t.Errorf("a folder that is not tracked is at %q", r)
	}
	if err := os.WriteFile(filepath.Join(src, "a.go"), []byte("package b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, m := revisionAt(src); r != head || !m {
		t.Errorf("at %q, modified %v; want %s, modified", r, m, head)
	}
	t.Setenv("PATH", "")
	if r, m := revisionAt(src); r != "" || m {
		t.Errorf("without git: %q, %v", r, m)
	}
}

func TestBuiltJustNow(t *testing.T) {
	t.Parallel()
	cache, temp := t.TempDir(), os.TempDir()
	for exe, want := range map[string]bool{
		filepath.Join(temp, "go-build123", "b001", "exe", "gradlab"):         true,
		filepath.Join(cache, "ab", strings.Repeat("ab", 32)+"-d", "gradlab"): true,
		filepath.Join(cache, "ab", "abcd-d", "gradlab"):                      false,
		filepath.Join(temp, "gradlab"):                                       false,
		filepath.Join(cache+"2", "gradlab"):                                  false,
		"gradlab":                                                            false,
	} {
		if got := builtJustNow(exe); got != want {
			t.Errorf("%s: %v", exe, got)
		}
	}
}

func TestVersionString(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]Version{
		"gradlab v1.2.3, go1.26 linux/amd64":                      {Module: "v1.2.3"},
		"gradlab (0123456789ab), go1.26 linux/amd64":              {Module: "(devel)", Revision: "0123456789abcdef"},
		"gradlab (0123456789ab+dirty), go1.26 linux/amd64":        {Revision: "0123456789abcdef", Modified: true},
		"gradlab of no known revision, go1.26 linux/amd64":        {},
		"gradlab v0.0.0-1-0123456789ab+dirty, go1.26 linux/amd64": {Module: "v0.0.0-1-0123456789ab+dirty", Revision: "0123456789abcdef", Modified: true},
	} {
		v.Go, v.Platform = "go1.26", "linux/amd64"
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Tests are built like go run builds: nothing is recorded, and git knows.
func TestEnvironmentHasTheRevision(t *testing.T) {
	t.Parallel()
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) {
		t.Skip("built with -trimpath")
	}
	b, err := exec.Command("git", "-C", filepath.Dir(file), "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skip("no checkout: ", err)
	}
	want := strings.TrimSpace(string(b))
	env := environment(nil)
	if env["vcs.revision"] != want || env["vcs.modified"] == nil || !strings.Contains(env["version"].(string), want[:12]) {
		t.Errorf("revision %v, modified %v, version %v; want %s", env["vcs.revision"], env["vcs.modified"], env["version"], want)
	}
}
