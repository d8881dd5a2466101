package experiments

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gradlab/gradlab/internal/cpu"
)

// Version says which gradlab this is.
type Version struct {
	Module   string // version of the main module; "" or (devel) from a checkout
	Revision string // commit of the checkout it was built from; "": not known
	Modified bool   // something in that checkout was not committed
	Go       string // that built it
	Platform string // operating system and architecture
}

// Processor says what the kernels of this program find: the model, the extensions of its
// instruction set that they may use, and how many of them run.
func Processor() (model, features, kernels string) {
	running, all, missing := cpu.Running()
	switch {
	case all == 0:
		kernels = "none in this build: plain Go"
	case running == all:
		kernels = fmt.Sprintf("all %d run", all)
	default:
		kernels = fmt.Sprintf("%d of %d run; the others need %v", running, all, missing)
	}
	return cpuid.CPU.BrandName, cpu.Usable().String(), kernels
}

// ThisVersion is that of the running program. The revision is what go build
// recorded; go run records none, so under it git is asked about the folder of the
// sources. What cannot be found out stays empty.
func ThisVersion() Version { return thisVersion() }

var thisVersion = sync.OnceValue(func() Version {
	v := Version{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Module = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if exe, err := os.Executable(); v.Revision == "" && err == nil && builtJustNow(exe) {
		if _, file, _, ok := runtime.Caller(0); ok {
			v.Revision, v.Modified = revisionAt(filepath.Dir(file))
		}
	}
	return v
})

// builtJustNow reports whether a program lies where go run and go test put what
// they build, so that the sources are still those it was built from. One that was
// built before may be older than the folder's revision.
func builtJustNow(exe string) bool {
	if cached.MatchString(filepath.ToSlash(filepath.Dir(exe))) {
		return true
	}
	for dir := filepath.Dir(exe); ; dir = filepath.Dir(dir) {
		if strings.HasPrefix(filepath.Base(dir), "go-build") {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// cached is a folder of Go's build cache, where go run keeps a program: named by a
// hash, in a folder of the hash's first digits.
var cached = regexp.MustCompile(`/[0-9a-f]{2}/[0-9a-f]{64}-d$`)

// revisionAt asks git for the commit that a folder is checked out at, and whether
// files that it tracks have changed since; nothing if the folder is not tracked,
// or git does not answer at once.
func revisionAt(dir string) (revision string, modified bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	git := func(args ...string) (string, bool) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "--no-optional-locks"}, args...)...)
		cmd.WaitDelay = time.Second
		b, err := cmd.Output()
		return strings.TrimSpace(string(b)), err == nil
	}
	if tracked, ok := git("ls-files", "."); !ok || tracked == "" { // a copy inside a checkout of something else
		return "", false
	}
	if revision, ok := git("rev-parse", "HEAD"); ok {
		changes, ok := git("status", "--porcelain", "--untracked-files=no")
		return revision, ok && changes != ""
	}
	return "", false
}

// String is one line: "gradlab v1.2.3 (0123456789ab+dirty), go1.26.8 linux/amd64".
func (v Version) String() string {
	var b strings.Builder
	b.WriteString("gradlab")
	if v.Module != "" && v.Module != "(devel)" {
		b.WriteString(" " + v.Module)
	}
	if v.Revision != "" && !strings.Contains(v.Module, v.Revision[:min(12, len(v.Revision))]) {
		b.WriteString(" (" + v.Revision[:min(12, len(v.Revision))])
		if v.Modified {
			b.WriteString("+dirty")
		}
		b.WriteString(")")
	}
	if b.Len() == len("gradlab") {
		b.WriteString(" of no known revision")
	}
	return b.String() + ", " + v.Go + " " + v.Platform
}
