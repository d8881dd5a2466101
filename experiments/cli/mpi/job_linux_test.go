package mpi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/internal/program/hosts"
)

// mpi makes two hosts on which mpirun starts processes.
func mpi(t *testing.T) (do func(dir string, line ...string) *program.Program) {
	t.Helper()
	hosts.Needs(t, "mpirun", "orted", "nsenter", "unshare")
	m, at := hosts.New(t, 2)
	on := m.Called("n", at)
	// What ssh would do: a command line on a host, by its name.
	agent := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/bash\nhost=$1; shift\ncase $host in\n"
	for i := range m.Names {
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
		return hosts.Begin(t, dir, env, append(on(0), line...)...)
	}
}

// A run of four ranks on two hosts by mpirun, as the script of examples/launch starts it;
// one that loses a rank, and one that is stopped.
func TestOpenMPI(t *testing.T) {
	t.Parallel()
	do := mpi(t)
	if patience.Long {
		dir := hosts.JobFolder(t)
		hosts.Ends(do(dir, "bash", "mpi.sh"), 0, hosts.Nothing)
		hosts.Came(t, dir, hosts.Expected(t), hosts.Nothing)
	}

	want := hosts.LastingResult(t)
	dir := hosts.JobFolder(t)
	launch := slices.Concat([]string{"gradlab", "launch", "mpi", "digits.yaml"}, hosts.Lasting, []string{"--hosts", "n0:2,n1:2", "--submit", "--data-dir", dir})
	job := do(dir, launch...)
	hosts.Until(t, "some checkpoints", job.Says, func() bool { return strings.Contains(job.Says(), "checkpoint at step 150") })
	hosts.Kill(t, dir)
	untilSecondStart(t, job)
	// The signal reaches the first process of the host's view alone if it is sent from there.
	hosts.Stop(t, job)
	job.Expect(143)
	if says := job.Says(); !strings.Contains(says, "digits is stopped at step") || !strings.Contains(says, "gradlab: stopped; the checkpoint is written, --resume goes on") {
		t.Errorf("the last lines of rank 0 are missing:\n%s", says)
	}
	hosts.Ends(do(dir, launch...), 0, hosts.Nothing)
	hosts.Came(t, dir, want, job.Says)
}

// untilSecondStart waits until a job that was started again trains: before, a stop finds
// nothing to keep.
func untilSecondStart(t *testing.T, job *program.Program) {
	t.Helper()
	hosts.Until(t, "steps of a second start", job.Says, func() bool {
		_, second, ok := strings.Cut(job.Says(), "resumed from step")
		return ok && strings.Contains(second, "checkpoint at step") // else not all ranks have come yet
	})
}
