package jobs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

var rewrite = flag.Bool("rewrite", false, "write the jobs of examples/launch anew, each by the command in its first lines")

// Each job in examples/launch is what the command in it writes.
func TestJobsAreWhatTheirCommandsWrite(t *testing.T) {
	t.Parallel()
	files := launchExamples(t)
	command := regexp.MustCompile(`(?m)^# gradlab (launch .*)$`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := command.FindSubmatch(text)
			if m == nil {
				t.Fatalf("%s does not say which command writes it", file)
			}
			got := launches(t, filepath.Dir(file), strings.Fields(string(m[1]))...).Out.String()
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s is not what its command writes (go test ./experiments/cli/jobs -run JobsAre -rewrite):\n%s", file, got)
			}
		})
	}
}

func launchExamples(t *testing.T) (files []string) {
	t.Helper()
	for _, ending := range []string{"*.sh", "*.yaml"} {
		more, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "launch", ending))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range more {
			if filepath.Base(f) != "digits.yaml" { // the recipe
				files = append(files, f)
			}
		}
	}
	if len(files) < 6 {
		t.Fatalf("examples/launch holds %q", files)
	}
	return files
}

// launches runs gradlab in a folder, to a good end.
func launches(t *testing.T, dir string, args ...string) *program.Program {
	t.Helper()
	p := program.StartBy(t, []string{"env", "-C", dir}, nil, args...)
	p.Expect(0)
	return p
}

func TestLaunchRefuses(t *testing.T) {
	t.Parallel()
	file := program.Recipe(t, program.Quick)
	for _, c := range []struct{ args, says string }{
		{"", "a scheduler: slurm, mpi or kubernetes"},
		{"condor " + file, `slurm, mpi and kubernetes, not "condor"`},
		{"slurm", "needs a recipe"},
		{"slurm nowhere", "nowhere"},
		{"slurm " + file + " codec=raw,bf16", "give each axis one value"},
		{"slurm " + file + " codec=what", "what"},
		{"slurm " + file + " mode=reduce policy=asp", "policy"},
		{"slurm " + file + " --sbatch --time=1", "without its dashes"},
		{"slurm " + file + " --grace 0s", "a second or more"},
		{"slurm " + file + " --cpus -1", "--cpus -1"},
		{"slurm " + file + " --repeats 3", "--shares n"},
		{"slurm " + file + " seed=1,2 --shares 3", "the sweep has 2 runs"},
		{"mpi " + file + " --port 0", "--port 0"},
		{"kubernetes " + file, "examples/launch/Dockerfile"},
		{"kubernetes " + file + " --image x --as pod", "job or jobset"},
		{"kubernetes " + file + " seed=1,2 --shares 2 --image x --as jobset", "leave out --as jobset"},
	} {
		p := program.Start(t, nil, append([]string{"launch"}, strings.Fields(c.args)...)...)
		p.Expect(2)
		if !strings.Contains(p.Err.String(), c.says) || p.Out.String() != "" {
			t.Errorf("launch %s: want it to say %q\n%s", c.args, c.says, p.Says())
		}
	}
}

// A data set that is not here is no hindrance, and is not fetched.
func TestLaunchNeedsNoData(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	p := program.Start(t, []string{"GRADLAB_CACHE_DIR=" + cache, "GRADLAB_DATA_DIR=" + t.TempDir()}, "launch", "slurm", "goyal2017", "data=imagenet", "workers=8")
	p.Expect(0)
	if !strings.Contains(p.Err.String(), "is not here, so what depends on it is checked when the job begins") || !strings.Contains(p.Out.String(), "--ntasks=8\n") {
		t.Error(p.Says())
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 {
		t.Errorf("the cache holds %v", left)
	}
}

// Words that a shell would read otherwise reach the ranks as they were typed.
func TestLaunchQuotes(t *testing.T) {
	t.Parallel()
	key := "codec=feedback(topk(keep=0.01))"
	p := program.Finish(t, 0, "launch", "slurm", program.Recipe(t, program.Quick), key)
	if !strings.Contains(p.Out.String(), " '"+key+"' ") {
		t.Error(p.Says())
	}
}

// A pod finds all in its manifest, which is why a recipe that is based on a file is
// refused where it would have to be.
func TestLaunchSweepBasedOnAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": program.Quick, "b.yaml": "base: ./a.yaml\nseed: [1, 2]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "b.yaml")
	p := program.Start(t, nil, "launch", "kubernetes", file, "--shares", "2", "--image", "x")
	p.Expect(2)
	if !strings.Contains(p.Err.String(), "write what it says into one file") {
		t.Error(p.Says())
	}
	one := program.Finish(t, 0, "launch", "kubernetes", file, "seed=3", "--image", "x")
	if !strings.Contains(one.Out.String(), "    seed: 3\n") || !strings.Contains(one.Out.String(), "    steps: 10\n") {
		t.Error(one.Says())
	}
}

// A rank that is started again when its run is done has nothing to join, and ends well:
// what starts ranks again until they end well would otherwise never come to an end.
func TestNothingLeftToJoin(t *testing.T) {
	t.Parallel()
	file, out := program.Recipe(t, program.Quick), t.TempDir()
	program.Finish(t, 0, "run", file, "net=grpc", "--quiet", "--out", out)
	p := program.Start(t, []string{program.Secret}, "join", file, "--rank", "1", "--coordinator", "127.0.0.1:9", "--resume", "--out", out, "--timeout", "1h")
	p.Expect(0)
	if !strings.Contains(p.Err.String(), "nothing is left to join") {
		t.Error(p.Says())
	}
}

// auto/n is the share that a scheduler's variable says.
func TestShardOfAnArray(t *testing.T) {
	t.Parallel()
	file := program.Recipe(t, program.Quick)
	for _, c := range []struct {
		env  string
		code int
		want string
	}{
		{"SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=4", 0, `"seed":2`},
		{"JOB_COMPLETION_INDEX=0", 0, `"seed":1`},
		{"JOB_COMPLETION_INDEX=2", 2, "want i/n"},
		{"SLURM_ARRAY_TASK_ID=5", 2, "SLURM_ARRAY_TASK_MIN"},
		{"X=1", 2, "write it, such as 1/2"},
	} {
		p := program.Start(t, strings.Fields(c.env), "sweep", file, "seed=1,2", "--shard", "auto/2", "--dry-run", "--json")
		p.Expect(c.code)
		if says := p.Out.String() + p.Err.String(); !strings.Contains(says, c.want) || strings.Count(p.Out.String(), "\n") != 1-c.code/2 {
			t.Errorf("%s: want %q\n%s", c.env, c.want, p.Says())
		}
	}
}
