package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/launch"
	"github.com/gradlab/gradlab/experiments/sweep"
	"github.com/gradlab/gradlab/internal/regular"
)

const launchLong = `Launch writes a complete job that starts the ranks of a run on many machines, each by
gradlab join, and prints it; with --submit it is handed over at once:

  gradlab launch slurm goyal2017 data=imagenet workers=8 --nodes 4 --cpus 16
  gradlab launch mpi quickstart codec=raw --hosts n0:2,n1:2
  gradlab launch kubernetes goyal2017 workers=8 --image registry.example/gradlab
  gradlab launch slurm quickstart codec=raw,bf16 --repeats 5 --shares 4

A job has a process for each worker and each server. That of rank 0 observes too. A
stop before its time is up, or a rank that is lost, starts the job again, which goes
on from the last checkpoint: at most --restarts times. The run's secret is made by the
script, or is a Secret of the cluster; it stands in no file.

With --shares the job is a sweep, cut into so many shares that run independently.

The configuration is checked here. Where its data set is not on this machine, what
depends on it is checked when the job begins.`

// launchFlags are what the schedulers' commands have in common.
type launchFlags struct {
	job    launch.Job
	name   string
	submit bool
	space  sweep.Space
}

func (e *env) launchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "launch slurm|mpi|kubernetes RECIPE|FILE [key=value …]",
		Short: "Write or submit a job of many machines: Slurm, Open MPI, Kubernetes",
		Long:  launchLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("launch needs a scheduler: slurm, mpi or kubernetes")}
			}
			return usageError{fmt.Errorf("launch knows slurm, mpi and kubernetes, not %q", args[0])}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	c.AddCommand(e.launchSlurm(), e.launchMPI(), e.launchKubernetes())
	return c
}

// launcher is the command of one scheduler. write makes the job, submit hands it over.
func (e *env) launcher(name, short, long string, o *launchFlags, write func(l *launching) ([]byte, error), submit func(cmd *cobra.Command, job []byte) error) *cobra.Command {
	c := &cobra.Command{
		Use: name + " RECIPE|FILE [key=value …]", Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("launch needs a recipe; see gradlab list recipes")}
			}
			return flagsAsKeys(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := e.launching(cmd, args, o)
			if err != nil {
				return err
			}
			if l.carried && name != "mpi" {
				return usageError{fmt.Errorf("net=mpi needs ranks that mpirun starts: gradlab launch mpi, or net=grpc")}
			}
			text, err := write(l)
			if err != nil {
				return usageError{err}
			}
			if o.submit {
				return submit(cmd, text)
			}
			_, err = e.raw.Write(text)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "name of the job; default: the recipe's")
	f.StringVar(&o.job.Out, "out", "runs", "base folder of run folders, which all machines share")
	f.StringVar(&o.job.Program, "program", "gradlab", "the program, as the job's machines find it")
	f.IntVar(&o.job.CPUs, "cpus", 0, "cores of a process; 0: as the scheduler gives")
	f.IntVar(&o.job.Restarts, "restarts", 10, "how often the job is started again where that may help")
	f.DurationVar(&o.job.Timeout, "timeout", 10*time.Minute, "how long ranks wait for each other")
	f.BoolVar(&o.submit, "submit", false, "hand the job over, and do not print it")
	return c
}

// sweepsToo gives the command the flags of a sweep.
func (o *launchFlags) sweepsToo(c *cobra.Command) *cobra.Command {
	f := c.Flags()
	f.IntVar(&o.job.Shares, "shares", 0, "a sweep, cut into so many shares that run independently; 0: one run")
	f.IntVar(&o.space.Repeats, "repeats", 0, "with --shares: run everything with seeds 1 … n")
	f.StringArrayVar(&o.space.Zip, "zip", nil, "with --shares: dimensions that advance together")
	f.StringArrayVar(&o.space.Exclude, "exclude", nil, "with --shares: leave out jobs that meet all of these")
	f.BoolVar(&o.space.Quick, "quick", false, "with --shares: the recipe's smaller form")
	return c
}

// launching is a job that is being written.
type launching struct {
	launchFlags
	text    func() (string, error) // the recipe, for machines that do not see its file
	carried bool                   // by MPI
}

// launching checks what is to be run, and says what processes that takes.
func (e *env) launching(cmd *cobra.Command, args []string, o *launchFlags) (*launching, error) {
	l := &launching{launchFlags: *o}
	j := &l.job
	for name, n := range map[string]int{"shares": j.Shares, "cpus": j.CPUs, "restarts": j.Restarts, "repeats": o.space.Repeats} {
		if n < 0 {
			return nil, usageError{fmt.Errorf("--%s %d: want a number, or 0", name, n)}
		}
	}
	for _, name := range []string{"repeats", "zip", "exclude", "quick"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && j.Shares == 0 {
			return nil, usageError{fmt.Errorf("--%s is of a sweep: say with --shares n into how many shares it is cut", name)}
		}
	}
	j.Line = launchLine(e.args)
	j.Recipe = args[0]
	if cmd.Flags().Changed("data-dir") {
		j.DataDir = e.v.GetString("data-dir")
	}
	var err error
	if j.Shares > 0 {
		err = e.launchSweep(args, l)
	} else {
		err = e.launchRun(args, l)
	}
	if err != nil {
		return nil, err
	}
	if j.Name = launch.Named(o.name); o.name == "" {
		j.Name = launch.Named(strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0])))
	}
	return l, nil
}

// launchLine is the command line without what changes nothing in the job.
func launchLine(args []string) string {
	words := []string{"gradlab"}
	for _, a := range args {
		if a != "--submit" {
			words = append(words, launch.Quote(a))
		}
	}
	return strings.Join(words, " ")
}

// launchRun looks at one run: how many ranks it has, and whether it can be.
func (e *env) launchRun(args []string, l *launching) error {
	over := args[1:]
	_, runs, mpi, err := e.loadRanks(args[0], args[1:])
	if err != nil {
		return err
	}
	if len(runs) != 1 {
		return usageError{fmt.Errorf("%s holds %d runs, and a job of ranks is one: give each axis one value, or cut the sweep into shares with --shares", args[0], len(runs))}
	}
	c := runs[0].Config
	places := e.places()
	places.NoDownload = true
	var bad *config.Error
	of, err := runs[0].Resolve()
	if err != nil {
		return err
	}
	if _, err := of.Build(places, nil); errors.As(err, &bad) {
		return err
	} else if err != nil {
		fmt.Fprintf(e.err, "data=%s is not here, so what depends on it is checked when the job begins: %s\n", c.Data, firstLine(err))
	}
	l.carried = mpi
	l.job.Keys = over
	l.job.Workers, l.job.Servers = of.Ranks()
	l.text = func() (string, error) { return string(aboveDefault(c)), nil }
	return nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// aboveDefault is a configuration's YAML without the keys that have their default.
func aboveDefault(c config.Config) []byte {
	usual := map[string]bool{}
	for line := range strings.Lines(string(config.Default().YAML())) {
		usual[line] = true
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(c.YAML())) {
		if !usual[line] {
			b.WriteString(line)
		}
	}
	return b.Bytes()
}

// launchSweep looks at a sweep: how many runs it has.
func (e *env) launchSweep(args []string, l *launching) error {
	recipe, err := config.LoadRecipe(args[0])
	if err != nil {
		return usageError{err}
	}
	s := l.space
	s.Recipe, s.Args = recipe, args[1:]
	jobs, err := s.Jobs()
	if err != nil {
		return usageError{err}
	}
	j := &l.job
	if j.Runs = len(jobs); j.Shares > j.Runs {
		return usageError{fmt.Errorf("--shares %d: the sweep has %d runs", j.Shares, j.Runs)}
	}
	j.Keys = args[1:]
	if s.Repeats > 0 {
		j.Flags = append(j.Flags, fmt.Sprint("--repeats=", s.Repeats))
	}
	for _, z := range s.Zip {
		j.Flags = append(j.Flags, "--zip="+z)
	}
	for _, x := range s.Exclude {
		j.Flags = append(j.Flags, "--exclude="+x)
	}
	if s.Quick {
		j.Flags = append(j.Flags, "--quick")
	}
	l.text = func() (string, error) {
		if !hardware.IsFile(args[0]) {
			return "", nil
		}
		b, err := regular.ReadText(args[0], regular.Text)
		if err == nil && bytes.HasPrefix(b, []byte("base:")) || bytes.Contains(b, []byte("\nbase:")) {
			err = fmt.Errorf("%s is based on another recipe, which pods would not find; write what it says into one file (gradlab recipe %s)", args[0], args[0])
		}
		return string(b), err
	}
	return nil
}

func (e *env) launchSlurm() *cobra.Command {
	o, s := &launchFlags{}, launch.Slurm{}
	c := e.launcher("slurm", "A script for sbatch", `Slurm writes a script for sbatch: a task for each rank of a run, or with --shares an
array of jobs that share out a sweep.

  gradlab launch slurm goyal2017 data=imagenet workers=8 --nodes 4 --cpus 16 --sbatch time=12:00:00
  gradlab launch slurm quickstart codec=raw,bf16 --repeats 5 --shares 4 --submit

So long before the job's time is up as --grace says, the run takes a checkpoint, and the
job is queued again; it goes on from there. So it does where a node or a rank is lost.
Run folders and data lie where all nodes see them.`, o,
		func(l *launching) ([]byte, error) {
			if s.Grace < time.Second {
				return nil, fmt.Errorf("--grace %v: want a second or more", s.Grace)
			}
			return l.job.Slurm(s)
		},
		func(cmd *cobra.Command, job []byte) error {
			return e.handOver(cmd, job, "sbatch")
		})
	c.Flags().IntVar(&s.Nodes, "nodes", 0, "nodes of the job; 0: Slurm chooses")
	c.Flags().DurationVar(&s.Grace, "grace", 2*time.Minute, "how long before its time is up the run is told to stop")
	c.Flags().StringArrayVar(&s.Options, "sbatch", nil, "an `option` of sbatch without its dashes: time=08:00:00, account=x (may be repeated)")
	return o.sweepsToo(c)
}

func (e *env) launchMPI() *cobra.Command {
	o, m := &launchFlags{}, launch.MPI{}
	var hosts string
	c := e.launcher("mpi", "A script around Open MPI's mpirun", `Mpi writes a script around Open MPI's mpirun, which starts a process for each rank. MPI
itself carries nothing, and ranks meet as they do elsewhere, unless net=mpi says that it
does: then the program on the hosts is one that was built with the tag mpi.

  gradlab launch mpi quickstart codec=raw workers=4 --hosts n0:2,n1:2 > job.sh
  gradlab launch mpi quickstart codec=raw workers=4 --submit
  gradlab launch mpi quickstart codec=raw workers=4 net=mpi --hosts n0:2,n1:2

The first host holds rank 0. --submit runs the script here and waits for its end.`, o,
		func(l *launching) ([]byte, error) {
			if hosts != "" {
				m.Hosts = strings.Split(hosts, ",")
			}
			if m.Port < 1 || m.Port > 65535 {
				return nil, fmt.Errorf("--port %d: want 1 to 65535", m.Port)
			}
			var options []string
			for _, opt := range m.Options {
				options = append(options, strings.Fields(opt)...)
			}
			m.Options, m.Carries = options, l.carried
			return l.job.MPI(m)
		},
		func(cmd *cobra.Command, job []byte) error {
			return e.handOver(cmd, job, "bash", "-s")
		})
	c.Flags().StringVar(&hosts, "hosts", "", "hosts in the order of ranks, with slots: n0:2,n1:2; default: this machine")
	c.Flags().IntVar(&m.Port, "port", launch.Port, "where rank 0 is called, with --hosts")
	c.Flags().StringArrayVar(&m.Options, "mpirun", nil, "an `option` of mpirun: '--bind-to none' (may be repeated)")
	return c
}

func (e *env) launchKubernetes() *cobra.Command {
	o, k := &launchFlags{}, launch.Kubernetes{}
	var as string
	c := e.launcher("kubernetes", "A manifest for kubectl: an indexed Job, or a JobSet", `Kubernetes writes a manifest for kubectl apply: a Job with an index for each rank and a
headless Service that names the pods, or a JobSet. With --shares it is a Job with an
index for each share of a sweep.

  gradlab launch kubernetes goyal2017 workers=8 --image registry.example/gradlab --cpus 16 --memory 32Gi
  gradlab launch kubernetes goyal2017 workers=8 --image registry.example/gradlab --as jobset --submit

The image is built by examples/launch/Dockerfile. Runs and data lie on the volume of
--claim, which all pods can write: /gradlab/runs and /gradlab/data there. A recipe in a
file travels in the manifest.

Where a pod of a Job fails, the Job starts that one again; the others end by themselves,
as a rank is lost, and are started again too. A JobSet starts all of them together.`, o,
		func(l *launching) (_ []byte, err error) {
			if k.JobSet = as == "jobset"; !k.JobSet && as != "job" {
				return nil, fmt.Errorf("--as %q: want job or jobset", as)
			}
			if k.JobSet && l.job.Shares > 0 {
				return nil, errors.New("the shares of a sweep need nothing of each other: leave out --as jobset")
			}
			if k.Text, err = l.text(); err != nil {
				return nil, err
			}
			if l.submit && l.job.Shares == 0 {
				var secret [32]byte
				if _, err := rand.Read(secret[:]); err != nil {
					return nil, err
				}
				k.Token = base64.StdEncoding.EncodeToString(secret[:])
			}
			if k.Text != "" && l.job.Shares == 0 {
				l.job.Keys = nil // they stand in the text
			}
			return l.job.Kubernetes(k)
		},
		func(cmd *cobra.Command, job []byte) error {
			return e.handOver(cmd, job, "kubectl", "create", "-f", "-")
		})
	f := c.Flags()
	f.StringVar(&as, "as", "job", "job, or jobset where its controller is installed")
	f.StringVar(&k.Image, "image", "", "the image with gradlab")
	f.StringVar(&k.Namespace, "namespace", "", "where the job goes; default: kubectl's")
	f.StringVar(&k.Claim, "claim", "gradlab", "volume claim for runs and data")
	f.StringVar(&k.Memory, "memory", "", "memory of a pod, requested and at most: 8Gi")
	return o.sweepsToo(c)
}

// handOver gives a job to the program that takes it, and what is asked of this process
// to that program.
func (e *env) handOver(cmd *cobra.Command, job []byte, program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("--submit needs %s, which is not here: %w; without it the job is printed", program, err)
	}
	p := exec.CommandContext(cmd.Context(), path, args...)
	p.Stdin, p.Stdout, p.Stderr = bytes.NewReader(job), e.raw, e.screen
	if err := p.Start(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, stopSignals...)
	defer signal.Stop(ch)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-ch:
				if s == os.Interrupt {
					s = syscall.SIGTERM // which processes in the background heed too
				}
				_ = p.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	if err := p.Wait(); err != nil {
		return &handedOver{fmt.Errorf("%s: %w", program, err), p.ProcessState.ExitCode()}
	}
	return nil
}

// handedOver is the failure of a program that a job was handed to, with its exit code.
type handedOver struct {
	error
	code int
}
