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
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/internal/program/hosts"
)

// What schedulers start is run for real: the jobs of examples/launch, as they stand
// there, by slurmctld, slurmd and mpirun on two hosts, each with a network, a name and
// processes of its own. Pods are acted out: no Kubernetes is needed to start what a
// manifest says.

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
	hosts.Needs(t, "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "nsenter", "unshare")
	m, at := hosts.New(t, 2)
	on := m.Called("n", at)
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
		return hosts.Begin(t, dir, env, append(on(0), line...)...)
	}
	daemons := []*program.Program{do(home, "slurmctld", "-D")}
	for i := range 2 {
		daemons = append(daemons, hosts.Begin(t, home, env, append(on(i), "slurmd", "-D")...))
	}
	hosts.Until(t, "two idle nodes", func() string { return hosts.Logs(home, "*.log") }, func() bool {
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
	dir := hosts.JobFolder(t)
	says := func() string { return hosts.Logs(dir, "*.log") }
	hosts.Ends(do(dir, "sbatch", "--wait", "slurm.sh"), 0, says)
	hosts.Came(t, dir, hosts.Expected(t), says)

	hosts.Ends(do(dir, "sbatch", "--wait", "slurm-sweep.sh"), 0, says)
	done, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "result.json"))
	if len(done) != 1+4+2 {
		t.Errorf("%d runs, want the one, four of the sweep, and one worker alone for each of two seeds\n%s", len(done), says())
	}
}

// A job whose time is up, and one that loses a rank, are queued again and go on from the
// checkpoint, to the bits of a run that was left alone.
func TestSlurmQueuesAgain(t *testing.T) {
	t.Parallel()
	do := slurm(t)
	want := hosts.LastingResult(t)
	queued := ""
	for _, c := range patience.Few(1, []struct {
		name string
		harm func(t *testing.T, dir, job string)
	}{
		{"its time is up", func(t *testing.T, dir, job string) {
			hosts.Ends(do(dir, "scancel", "--signal=USR1", job), 0, hosts.Nothing) // as --signal=USR1@120 has it sent
		}},
		{"a rank is killed", func(t *testing.T, dir, _ string) { hosts.Kill(t, dir) }},
	}) {
		t.Run(c.name, func(t *testing.T) {
			dir := hosts.JobFolder(t)
			says := func() string { return hosts.Logs(dir, "*.log") + queued }
			submit := do(dir, slices.Concat([]string{"gradlab", "launch", "slurm", "digits.yaml"}, hosts.Lasting,
				[]string{"--nodes", "2", "--submit", "--data-dir", dir})...)
			submit.Expect(0)
			job := regexp.MustCompile(`Submitted batch job (\d+)`).FindStringSubmatch(submit.Out.String())
			if job == nil {
				t.Fatal(submit.Says())
			}
			hosts.Until(t, "some checkpoints", says, func() bool { return strings.Contains(says(), "checkpoint at step 150") })
			c.harm(t, dir, job[1])
			hosts.Until(t, "the end of the job", says, func() bool {
				queue := do(dir, "squeue", "--noheader", "--jobs", job[1])
				<-queue.Done
				queued = queue.Out.String()
				return !strings.Contains(queued, job[1])
			})
			if !strings.Contains(says(), "resumed from step") {
				t.Error(says())
			}
			hosts.Came(t, dir, want, says)
		})
	}
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
	m      *hosts.Machines
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
	p.m, p.at = hosts.New(t, p.spec.Completions)
	names := "127.0.0.1 localhost\n"
	for i := range p.spec.Completions {
		names += fmt.Sprintf("%s %s%d.%s\n", p.at(i), p.name, i, p.domain)
	}
	for i := range p.spec.Completions {
		p.m.Named(i, names)
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
	p.alive[index] = p.m.Start(index, env, args...)
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
		hosts.Until(p.t, "a probe of pod "+fmt.Sprint(i), p.says, func() bool {
			host, port, _ := net.SplitHostPort(addr)
			return exec.Command("ip", "netns", "exec", p.m.Names[(i+1)%p.spec.Completions], "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%s", host, port)).Run() == nil
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
	for _, file := range patience.Few(1, []string{"job.yaml", "jobset.yaml"}) {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if patience.Long {
				p := act(t, text)
				p.complete()
				hosts.Came(t, p.dir, hosts.Expected(t), p.says)
			}

			line := slices.Concat([]string{"launch", "kubernetes", "digits.yaml"}, hosts.Lasting, []string{"--image", "x"})
			if file == "jobset.yaml" {
				line = append(line, "--as", "jobset")
			}
			p := act(t, []byte(launches(t, dir, line...).Out.String()))
			p.probed()
			hosts.Until(t, "some checkpoints", p.says, func() bool { return strings.Contains(p.alive[0].Err.String(), "checkpoint at step 150") })
			p.alive[2].Signal(syscall.SIGKILL)
			if p.complete() == 0 {
				t.Error("no pod has failed")
			}
			hosts.Came(t, p.dir, hosts.LastingResult(t), p.says)
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
	if done, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*", "*", "result.json")); len(done) != 4+2 {
		t.Errorf("%d runs, want 4, and one worker alone for each of two seeds\n%s", len(done), p.says())
	}
}
