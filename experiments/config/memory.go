package config

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/sgd/train"
)

func gigabytes(n float64) string { return fmt.Sprintf("%.3g GB", n/1e9) }

// memoryIn is the memory of the machine whose root is given, in bytes, or what the
// control group or the limits (ulimit -v, -d) of this process grant of it, if that is less;
// 0: not known.
func memoryIn(root fs.FS) (bytes int64) {
	least := func(n int64) {
		if n > 0 && (bytes == 0 || n < bytes) {
			bytes = n
		}
	}
	if b, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				least(n << 10)
			}
		}
	}
	limits, _ := fs.ReadFile(root, "proc/self/limits")
	for line := range strings.Lines(string(limits)) {
		for _, name := range []string{"Max address space", "Max data size"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				n, _ := strconv.ParseInt(soft, 10, 64) // "unlimited" is none
				least(n)
			}
		}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(f) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		if f[1] != "" {
			if !strings.Contains(","+f[1]+",", ",memory,") {
				continue
			}
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// A group has no more than those above it. In a container the path may be one
		// that is not to be seen from inside.
		for p := path.Join("/", f[2]); ; p = path.Dir(p) {
			if b, err := fs.ReadFile(root, path.Join(base, p, file)); err == nil {
				n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is none
				least(n)
			}
			if p == "/" {
				break
			}
		}
	}
	return bytes
}

// leastMemory is what a process of a run takes at least, in bytes: parameters and a
// gradient, or the models of workers that keep apart, and one batch as it is drawn.
// What passes keep comes on top. It is a float, which nothing makes overflow.
func leastMemory(c Config, j *train.Job) float64 {
	params := 0.0
	for _, s := range j.Model.Layout().Spans {
		params += float64(float64(s.Rows) * float64(s.Cols))
	}
	vectors := 2.0
	if c.OnNet().Ranks == RanksHere { // there each has its own
		vectors = math.Max(vectors, 1+float64(j.Mode.Traits(j).Models))
	}
	batch := 0.0
	if j.Data.Train != nil {
		batch = float64(j.Batch) * float64(j.Data.Train.Sample().Shape.Len())
	}
	return 4 * (float64(vectors*params) + batch)
}

// fits refuses a run that needs more memory than the machine, or what this process is
// granted of it, has. Otherwise it would end in the middle of a stack trace.
func fits(c Config, j *train.Job, at Places) error {
	has := at.Memory
	if has == 0 {
		has = memoryIn(os.DirFS("/"))
	}
	if c.Weightless || has == 0 {
		return nil
	}
	if need := leastMemory(c, j); need > float64(has) {
		return fmt.Errorf("the run needs at least %s of memory for model=%s and batch=%d, and there are %s; take a smaller model or batch, or fewer workers that keep a model each",
			gigabytes(need), c.Model, c.Batch, gigabytes(float64(has)))
	}
	return nil
}
