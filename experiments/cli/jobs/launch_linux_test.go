package jobs_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/program"
)

// What schedulers start is run for real: the jobs of examples/launch, as they stand
// there, by slurmctld, slurmd and mpirun on two hosts, each with a network, a name and
// processes of its own. Pods are acted out: no Kubernetes is needed to start what a
// manifest says.

// called gives the hosts names: host i is prefix and i, and each knows all of them.
func (m *machines) called(prefix string, address func(int) string) (on func(host int) []string) {
	m.t.Helper()
	var lines strings.Builder
	lines.WriteString("127.0.0.1 localhost\n")
	for i := range m.names {
		fmt.Fprintf(&lines, "%s %s%d\n", address(i), prefix, i)
	}
	file := filepath.Join(m.t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
		m.t.Fatal(err)
	}
	// Processes end with the first of their view, so that nothing is left behind.
	on = func(host int) []string {
		return []string{"nsenter", "--net=/run/netns/" + m.names[host],
			"unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", fmt.Sprintf(`hostname %s%d && mount --bind %s /etc/hosts && exec "$@"`, prefix, host, file), "sh"}
	}
	line := append(on(0), "true")
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		m.t.Skipf("no hosts with names of their own can be made here: %v %s", err, out)
	}
	return on
}

// needs skips a test where a program is not there.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v", err)
		}
	}
}

// begin starts a command line in a folder, where gradlab is what is tested.
func begin(t *testing.T, dir string, env []string, line ...string) *program.Program {
	t.Helper()
	path := "PATH=" + filepath.Dir(program.Gradlab) + ":" + os.Getenv("PATH")
	return program.StartLine(t, dir, append([]string{"GRADLAB_CONFIG=", path}, env...), line...)
}

// ends waits for the exit code. more is told where it is another.
func ends(p *program.Program, code int, more func() string) {
	p.T.Helper()
	if got := p.Wait(program.Enough); got != code {
		p.T.Fatalf("exit code %d, want %d\n%s\n%s", got, code, p.Says(), more())
	}
}

func nothing() string { return "" }

// until waits for a condition.
func until(t *testing.T, what string, says func() string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(program.Enough); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s\n%s", what, says())
		}
	}
}

// logs are all files of a folder that a pattern names.
func logs(dir, pattern string) string {
	files, _ := filepath.Glob(filepath.Join(dir, pattern))
	var b strings.Builder
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(f), text)
	}
	return b.String()
}

// jobFolder holds examples/launch, and what its jobs write.
func jobFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "examples", "launch"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lasting are the keys of a run that goes on for a second or two, so that something can
// happen to it. Its steps are large ones, and few: each has the processes wait for one
// another, which takes long on a busy machine.
var lasting = []string{"model=mlp(hidden=[64])", "batch=512", "steps=1500", "eval_every=150", "checkpoint_every=50"}

// expectedLasting is what those runs come to, found once.
var (
	lastingHeld     sync.Mutex
	expectedLasting program.Result
)

func lastingResult(t *testing.T) program.Result {
	t.Helper()
	lastingHeld.Lock()
	defer lastingHeld.Unlock()
	if expectedLasting.SHA256 == "" {
		expectedLasting = expected(t, lasting...)
	}
	return expectedLasting
}

// expected is the result of the recipe of the jobs, with keys, without any scheduler.
func expected(t *testing.T, keys ...string) program.Result {
	t.Helper()
	file := filepath.Join("..", "..", "..", "examples", "launch", "digits.yaml")
	return program.Finish(t, 0, append([]string{"run", file, "--net", "local", "--json", "--quiet", "--out", t.TempDir()}, keys...)...).Result()
}

// came compares the run below a folder with what it should have come to.
func came(t *testing.T, dir string, want program.Result, says func() string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("%v\n%s", files, says())
	}
	var r program.Result
	program.ReadJSON(t, files[0], &r)
	if r.SHA256 != want.SHA256 || r.Status != "done" || r.Wire == 0 {
		t.Errorf("%+v, want the parameters of %+v\n%s", r, want, says())
	}
}

// slurmConf is a cluster of two nodes with more cores than there are, for a user who may
// do all.
const slurmConf = `ClusterName=test
SlurmctldHost=n0(%[1]s)
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
MailProg=/bin/true
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/spool.%%n
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd.%%n.pid
SlurmctldLogFile=%[3]s/slurmctld.log
SlurmdLogFile=%[3]s/slurmd.%%n.log
NodeName=n0 NodeAddr=%[1]s NodeHostname=n0 CPUs=8 State=UNKNOWN
NodeName=n1 NodeAddr=%[2]s NodeHostname=n1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// slurm starts a cluster of two nodes. do runs a client of it on the first one.
func slurm(t *testing.T) (do func(dir string, line ...string) *program.Program) {
	t.Helper()
	needs(t, "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "nsenter", "unshare")
	m, at := hosts(t, 2)
	on := m.called("n", at)
	home := t.TempDir()
	for _, d := range []string{"state", "spool.n0", "spool.n1"} {
		if err := os.Mkdir(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(home, "slurm.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, slurmConf, at(0), at(1), home), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"SLURM_CONF=" + conf}
	do = func(dir string, line ...string) *program.Program {
		return begin(t, dir, env, append(on(0), line...)...)
	}
	daemons := []*program.Program{do(home, "slurmctld", "-D")}
	for i := range 2 {
		daemons = append(daemons, begin(t, home, env, append(on(i), "slurmd", "-D")...))
	}
	until(t, "two idle nodes", func() string { return logs(home, "*.log") }, func() bool {
		for _, d := range daemons {
			select {
			case <-d.Done:
				t.Skipf("%q does not run here:\n%s", d.Cmd.Args, d.Says())
			default:
			}
		}
		info := do(home, "sinfo", "--noheader", "--states=idle", "--format=%D")
		<-info.Done
		return strings.TrimSpace(info.Out.String()) == "2"
	})
	return do
}

// A run of four ranks on two nodes, and a sweep as an array, by the scripts that stand in
// examples/launch.
func TestSlurm(t *testing.T) {
	t.Parallel()
	do := slurm(t)
	dir := jobFolder(t)
	says := func() string { return logs(dir, "*.log") }
	ends(do(dir, "sbatch", "--wait", "slurm.sh"), 0, says)
	came(t, dir, expected(t), says)

	ends(do(dir, "sbatch", "--wait", "slurm-sweep.sh"), 0, says)
	done, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "result.json"))
	if len(done) != 1+4 {
		t.Errorf("%d runs, want the one and four of the sweep\n%s", len(done), says())
	}
}

// A job whose time is up, and one that loses a rank, are queued again and go on from the
// checkpoint, to the bits of a run that was left alone.
func TestSlurmQueuesAgain(t *testing.T) {
	t.Parallel()
	do := slurm(t)
	want := lastingResult(t)
	queued := ""
	for _, c := range []struct {
		name string
		harm func(t *testing.T, dir, job string)
	}{
		{"its time is up", func(t *testing.T, dir, job string) {
			ends(do(dir, "scancel", "--signal=USR1", job), 0, nothing) // as --signal=USR1@120 has it sent
		}},
		{"a rank is killed", func(t *testing.T, dir, _ string) { kill(t, dir) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := jobFolder(t)
			says := func() string { return logs(dir, "*.log") + queued }
			submit := do(dir, slices.Concat([]string{"gradlab", "launch", "slurm", "digits.yaml"}, lasting,
				[]string{"--nodes", "2", "--submit", "--data-dir", dir})...)
			submit.Expect(0)
			job := regexp.MustCompile(`Submitted batch job (\d+)`).FindStringSubmatch(submit.Out.String())
			if job == nil {
				t.Fatal(submit.Says())
			}
			until(t, "some checkpoints", says, func() bool { return strings.Contains(says(), "checkpoint at step 150") })
			c.harm(t, dir, job[1])
			until(t, "the end of the job", says, func() bool {
				queue := do(dir, "squeue", "--noheader", "--jobs", job[1])
				<-queue.Done
				queued = queue.Out.String()
				return !strings.Contains(queued, job[1])
			})
			if !strings.Contains(says(), "resumed from step") {
				t.Error(says())
			}
			came(t, dir, want, says)
		})
	}
}

// processOf is a process of gradlab with a command of which more holds; 0: there is none.
func processOf(command string, more func(pid int, words []string) bool) int {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range slices.Backward(processes) {
		line, _ := os.ReadFile(p)
		words := strings.Split(string(line), "\x00")
		var pid int
		if _, err := fmt.Sscanf(p, "/proc/%d/", &pid); err == nil && filepath.Base(words[0]) == "gradlab" && slices.Contains(words, command) && more(pid, words) {
			return pid
		}
	}
	return 0
}

// send sends a signal to a process that was found.
func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if pid == 0 {
		t.Fatal("there is no such process")
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// kill ends one rank that was started for a folder's data.
func kill(t *testing.T, dir string) {
	t.Helper()
	send(t, processOf("join", func(_ int, words []string) bool { return slices.Contains(words, dir) }), syscall.SIGKILL)
}

// mpi makes two hosts on which mpirun starts processes.
func mpi(t *testing.T) (do func(dir string, line ...string) *program.Program) {
	t.Helper()
	needs(t, "mpirun", "orted", "nsenter", "unshare")
	m, at := hosts(t, 2)
	on := m.called("n", at)
	// What ssh would do: a command line on a host, by its name.
	agent := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/bash\nhost=$1; shift\ncase $host in\n"
	for i := range m.names {
		line := on(i)
		for k, w := range line {
			line[k] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		script += fmt.Sprintf("n%d) exec %s bash -c \"$*\" ;;\n", i, strings.Join(line, " "))
	}
	if err := os.WriteFile(agent, []byte(script+"esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm=rsh", "OMPI_MCA_plm_rsh_agent=" + agent}
	return func(dir string, line ...string) *program.Program {
		return begin(t, dir, env, append(on(0), line...)...)
	}
}

// A run of four ranks on two hosts by mpirun, as the script of examples/launch starts it;
// one that loses a rank, and one that is stopped.
func TestOpenMPI(t *testing.T) {
	t.Parallel()
	do := mpi(t)
	dir := jobFolder(t)
	ends(do(dir, "bash", "mpi.sh"), 0, nothing)
	came(t, dir, expected(t), nothing)

	want := lastingResult(t)
	dir = jobFolder(t)
	launch := slices.Concat([]string{"gradlab", "launch", "mpi", "digits.yaml"}, lasting, []string{"--hosts", "n0:2,n1:2", "--submit", "--data-dir", dir})
	job := do(dir, launch...)
	until(t, "some checkpoints", job.Says, func() bool { return strings.Contains(job.Says(), "checkpoint at step 150") })
	kill(t, dir)
	untilSecondStart(t, job)
	// The signal reaches the first process of the host's view alone if it is sent from there.
	stop(t, job)
	job.Expect(143)
	if says := job.Says(); !strings.Contains(says, "digits is stopped at step") || !strings.Contains(says, "gradlab: stopped; the checkpoint is written, --resume goes on") {
		t.Errorf("the last lines of rank 0 are missing:\n%s", says)
	}
	ends(do(dir, launch...), 0, nothing)
	came(t, dir, want, job.Says)
}

// untilSecondStart waits until a job that was started again trains: before, a stop finds
// nothing to keep.
func untilSecondStart(t *testing.T, job *program.Program) {
	t.Helper()
	until(t, "steps of a second start", job.Says, func() bool {
		_, second, ok := strings.Cut(job.Says(), "resumed from step")
		return ok && strings.Contains(second, "checkpoint at step") // else not all ranks have come yet
	})
}

// stop sends SIGTERM to gradlab launch below a program.
func stop(t *testing.T, r *program.Program) {
	t.Helper()
	send(t, processOf("launch", func(pid int, _ []string) bool { return below(pid, r.Cmd.Process.Pid) }), syscall.SIGTERM)
}

// below says whether a process is a descendant of another.
func below(pid, of int) bool {
	for pid > 1 {
		if pid == of {
			return true
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if _, err := fmt.Sscan(fields[1], &pid); err != nil {
			return false
		}
	}
	return false
}

// manifest is what of a Job or JobSet is acted out.
type manifest struct {
	Kind     string
	Data     map[string]string
	Metadata struct{ Name string }
	Spec     struct {
		jobSpec       `yaml:",inline"`
		FailurePolicy struct {
			MaxRestarts int `yaml:"maxRestarts"`
		} `yaml:"failurePolicy"`
		ReplicatedJobs []struct {
			Name     string
			Template struct{ Spec jobSpec }
		} `yaml:"replicatedJobs"`
	}
}

type jobSpec struct {
	Completions      int
	BackoffLimit     int `yaml:"backoffLimit"`
	PodFailurePolicy struct {
		Rules []struct {
			Action      string
			OnExitCodes struct{ Values []int } `yaml:"onExitCodes"`
		}
	} `yaml:"podFailurePolicy"`
	Template struct {
		Spec struct {
			Subdomain  string
			Containers []struct {
				Args []string
				Env  []struct {
					Name, Value string
					ValueFrom   struct {
						SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
					} `yaml:"valueFrom"`
				}
				Ports []struct {
					ContainerPort int `yaml:"containerPort"`
				}
				StartupProbe struct {
					TCPSocket struct{ Port string } `yaml:"tcpSocket"`
				} `yaml:"startupProbe"`
			}
		}
	}
}

// pods are those of a manifest, each on a host of its own with its name.
type pods struct {
	t      *testing.T
	spec   jobSpec
	set    bool // a JobSet: one that fails has all of them started again
	m      *machines
	at     func(int) string
	dir    string
	name   string // of the pods, but for their index
	domain string
	alive  map[int]*program.Program
	tries  int
}

// act reads a manifest and starts its pods.
func act(t *testing.T, text []byte) *pods {
	t.Helper()
	p := &pods{t: t, dir: t.TempDir(), alive: map[int]*program.Program{}}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if d.Decode(&m) != nil {
			break
		}
		switch m.Kind {
		case "ConfigMap":
			for file, text := range m.Data {
				if err := os.MkdirAll(filepath.Join(p.dir, "recipe"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(p.dir, "recipe", file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		case "Job":
			p.spec, p.name, p.domain = m.Spec.jobSpec, m.Metadata.Name+"-", m.Spec.Template.Spec.Subdomain
			p.tries = p.spec.BackoffLimit
		case "JobSet":
			j := m.Spec.ReplicatedJobs[0]
			p.spec, p.set, p.name, p.domain = j.Template.Spec, true, m.Metadata.Name+"-"+j.Name+"-0-", m.Metadata.Name
			p.tries = m.Spec.FailurePolicy.MaxRestarts
		}
	}
	p.m, p.at = hosts(t, p.spec.Completions)
	names := "127.0.0.1 localhost\n"
	for i := range p.spec.Completions {
		names += fmt.Sprintf("%s %s%d.%s\n", p.at(i), p.name, i, p.domain)
	}
	for i := range p.spec.Completions {
		p.m.named(i, names)
		p.start(i)
	}
	return p
}

// volumes puts the folder of the test where the manifest mounts a volume.
func (p *pods) volumes(text string) string {
	return strings.NewReplacer("/gradlab/", p.dir+"/", "/recipe/", p.dir+"/recipe/").Replace(text)
}

func (p *pods) start(index int) {
	p.t.Helper()
	c := p.spec.Template.Spec.Containers[0]
	env := []string{fmt.Sprint("JOB_COMPLETION_INDEX=", index)}
	for _, v := range c.Env {
		if v.ValueFrom.SecretKeyRef.Key == "token" {
			v.Value = strings.TrimPrefix(program.Secret, "GRADLAB_TOKEN=")
		}
		env = append(env, v.Name+"="+p.volumes(v.Value))
	}
	var args []string
	for _, a := range c.Args {
		args = append(args, p.volumes(a))
	}
	p.alive[index] = p.m.start(index, env, args...)
}

// probed waits until all pods have passed their startup probe.
func (p *pods) probed() {
	p.t.Helper()
	c := p.spec.Template.Spec.Containers[0]
	if c.StartupProbe.TCPSocket.Port != "ranks" {
		p.t.Fatalf("no startup probe: %+v", c)
	}
	for i := range p.spec.Completions {
		addr := net.JoinHostPort(p.at(i), fmt.Sprint(c.Ports[0].ContainerPort))
		until(p.t, "a probe of pod "+fmt.Sprint(i), p.says, func() bool {
			host, port, _ := net.SplitHostPort(addr)
			return exec.Command("ip", "netns", "exec", p.m.names[(i+1)%p.spec.Completions], "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%s", host, port)).Run() == nil
		})
	}
}

func (p *pods) says() string {
	var b strings.Builder
	for i, pod := range p.alive {
		fmt.Fprintf(&b, "pod %d: %s\n", i, pod.Says())
	}
	return b.String()
}

// complete plays the controller until all indexes have succeeded.
func (p *pods) complete() (failed int) {
	p.t.Helper()
	for succeeded := 0; succeeded < p.spec.Completions; {
		succeeded = 0
		for i := range p.spec.Completions {
			pod := p.alive[i]
			select {
			case <-pod.Done:
			case <-time.After(20 * time.Millisecond):
				continue
			}
			code := pod.Cmd.ProcessState.ExitCode()
			if code == 0 {
				succeeded++
				continue
			}
			for _, r := range p.spec.PodFailurePolicy.Rules {
				if r.Action == "FailJob" && slices.Contains(r.OnExitCodes.Values, code) {
					p.t.Fatalf("pod %d ends with %d, and with it the job\n%s", i, code, p.says())
				}
			}
			if failed++; failed > p.tries {
				p.t.Fatalf("more than %d failures\n%s", p.tries, p.says())
			}
			if !p.set {
				p.start(i)
				continue
			}
			for k, other := range p.alive { // all are deleted, and made anew
				other.Signal(syscall.SIGTERM)
				other.Wait(program.Enough)
				p.start(k)
			}
			break
		}
	}
	return failed
}

// The pods of both manifests come to the result, also where one of them dies.
func TestPods(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "examples", "launch")
	for _, file := range []string{"job.yaml", "jobset.yaml"} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			p := act(t, text)
			p.complete()
			came(t, p.dir, expected(t), p.says)

			line := slices.Concat([]string{"launch", "kubernetes", "digits.yaml"}, lasting, []string{"--image", "x"})
			if file == "jobset.yaml" {
				line = append(line, "--as", "jobset")
			}
			p = act(t, []byte(launches(t, dir, line...).Out.String()))
			p.probed()
			until(t, "some checkpoints", p.says, func() bool { return strings.Contains(p.alive[0].Err.String(), "checkpoint at step 150") })
			p.alive[2].Signal(syscall.SIGKILL)
			if p.complete() == 0 {
				t.Error("no pod has failed")
			}
			came(t, p.dir, lastingResult(t), p.says)
		})
	}
}

// The shares of a sweep in pods make all of its runs.
func TestPodsOfASweep(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "launch", "sweep.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := act(t, text)
	p.complete()
	if done, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*", "*", "result.json")); len(done) != 4 {
		t.Errorf("%d runs, want 4\n%s", len(done), p.says())
	}
}
