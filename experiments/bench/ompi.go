package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata/ompi.c
var openMPISource string

// OpenMPI is an installed Open MPI with our program compiled against it.
type OpenMPI struct {
	run      string // mpirun
	dir      string // holds the program
	environ  []string
	patience time.Duration
}

const openMPIInstall = "apt-get install openmpi-bin libopenmpi-dev"

// openMPIRoads are what its ranks talk through.
var openMPIRoads = []string{"tcp", "shm"}

// FindOpenMPI looks for mpicc and mpirun in the path and compiles the peer.
// environ is os.Environ(). Close removes what it made.
func FindOpenMPI(ctx context.Context, environ []string) (*OpenMPI, error) {
	var tools [2]string
	for i, tool := range []string{"mpicc", "mpirun"} {
		var err error
		if tools[i], err = exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("no Open MPI: %w; install it (%s)", err, openMPIInstall)
		}
	}
	dir, err := os.MkdirTemp("", "gradlab-ompi-")
	if err != nil {
		return nil, err
	}
	m := &OpenMPI{run: tools[1], dir: dir, environ: environ, patience: groupPatience}
	source := filepath.Join(dir, "ompi.c")
	err = os.WriteFile(source, []byte(openMPISource), 0o600)
	if err == nil {
		compile := exec.CommandContext(ctx, tools[0], "-O2", "-o", m.program(), source)
		compile.Env = environ
		var out []byte
		if out, err = compile.CombinedOutput(); err != nil {
			err = fmt.Errorf("mpicc: %w\n%s", err, strings.TrimSpace(string(out)))
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *OpenMPI) program() string { return filepath.Join(m.dir, "ompi") }

// Close removes the program.
func (m *OpenMPI) Close() { _ = os.RemoveAll(m.dir) }

// start starts n ranks that talk over tcp or shm.
func (m *OpenMPI) start(ctx context.Context, n int, over string) (g *group, version string, err error) {
	btl := map[string]string{"tcp": "tcp,self", "shm": "vader,self"}[over]
	g, err = startJob(ctx, mpiJob{"Open MPI over " + over, m.run, m.dir, m.environ, m.patience}, n, "--mca", "btl", btl, "--mca", "pml", "ob1", m.program())
	if err != nil {
		return g, "Open MPI", err
	}
	var hello struct{ Version string }
	if err = g.hear(ctx, &hello); err != nil {
		g.end()
	}
	return g, hello.Version, err
}

// mpiJob is how mpirun is started, and where pipes to its processes may lie.
type mpiJob struct {
	name, run, dir string
	environ        []string
	patience       time.Duration
}

// startJob starts n processes of a program, the last of words, which each hears commands
// on a pipe called by its rank, in the folder that is its last argument.
func startJob(ctx context.Context, j mpiJob, n int, words ...string) (g *group, err error) {
	pipes, err := os.MkdirTemp(j.dir, "gradlab-mpi-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(pipes) // once all are open
	for rank := range n {
		if err := fifo(filepath.Join(pipes, strconv.Itoa(rank))); err != nil {
			return nil, err
		}
	}
	line := append([]string{"--allow-run-as-root", "--oversubscribe", "-np", strconv.Itoa(n)}, words...)
	cmd := exec.CommandContext(ctx, j.run, append(line, pipes)...)
	cmd.Env = j.environ
	p, err := startChild(j.name, cmd, j.patience)
	if err != nil {
		return nil, err
	}
	g = &group{procs: []*child{p}}
	for rank := range n {
		f, err := openPipe(ctx, p, filepath.Join(pipes, strconv.Itoa(rank)))
		if err != nil {
			g.end()
			return nil, err
		}
		g.ins = append(g.ins, f)
	}
	return g, nil
}

// openPipe opens a named pipe to write to, once a process has opened it to read.
func openPipe(ctx context.Context, reader *child, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		done <- opened{f, err}
	}()
	late := time.NewTimer(reader.patience)
	defer late.Stop()
	err := fmt.Errorf("%s: did not start", reader.name)
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-reader.ended:
		err = reader.gone()
	case <-late.C:
	}
	if r, e := os.OpenFile(path, os.O_RDWR, 0); e == nil { // lets the open above return
		defer r.Close()
	}
	o := <-done
	if o.err == nil {
		_ = o.f.Close()
	}
	return nil, errors.Join(err, o.err)
}
