package experiments

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Who says which rank a process is and where it meets the others.
type Who struct {
	Rank        int
	World       int    // as the launcher says; 0: it does not
	Coordinator string // host:port
	Lead        bool   // this process coordinates
	Source      string // what said so
}

// Whoami works out who this process is: from flags (rank ≥ 0), else from the
// variables launchers set. getenv is os.Getenv. It never guesses: half of what
// is needed is an error that names what is missing.
func Whoami(getenv func(string) string, rank int, coordinator string) (Who, error) {
	if rank >= 0 {
		if coordinator == "" {
			return Who{}, fmt.Errorf("--rank needs --coordinator host:port")
		}
		return Who{Rank: rank, Coordinator: coordinator, Lead: rank == 0, Source: "flags"}, nil
	}
	for _, l := range []struct{ name, rank, world string }{
		{"torchrun's variables", "RANK", "WORLD_SIZE"},
		{"Open MPI's variables", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"PMI's variables", "PMI_RANK", "PMI_SIZE"},
		{"Slurm's variables", "SLURM_PROCID", "SLURM_NTASKS"},
		{"the job's completion index", "JOB_COMPLETION_INDEX", ""},
	} {
		text := getenv(l.rank)
		if text == "" || (l.rank == "SLURM_PROCID" && getenv("SLURM_STEP_ID") == "") {
			continue
		}
		w := Who{Coordinator: coordinator, Source: l.name}
		var err error
		if w.Rank, err = strconv.Atoi(text); err != nil || w.Rank < 0 {
			return Who{}, fmt.Errorf("%s is %q, want a rank", l.rank, text)
		}
		if s := getenv(l.world); l.world != "" && s != "" {
			if w.World, err = strconv.Atoi(s); err != nil || w.World < 1 {
				return Who{}, fmt.Errorf("%s is %q, want a number of ranks", l.world, s)
			}
		}
		if w.Coordinator == "" {
			addr, port := strings.Trim(getenv("MASTER_ADDR"), "[]"), masterPort(getenv)
			if addr == "" {
				addr = slurmLeader(getenv)
			}
			if port == "" {
				port = slurmPort(getenv)
			}
			if addr == "" || port == "" {
				return Who{}, fmt.Errorf("rank %d from %s, but nothing says where the coordinator is: set MASTER_ADDR and MASTER_PORT, or give --coordinator host:port", w.Rank, l.name)
			}
			w.Coordinator = net.JoinHostPort(addr, port)
		}
		w.Lead = w.Rank == 0
		return w, nil
	}
	return Who{}, fmt.Errorf("no rank: give --rank and --coordinator, or start this under torchrun, mpirun, srun or an indexed job")
}

// masterPort is MASTER_PORT, or the port behind it where torchrun's agent says
// that it listens there itself.
func masterPort(getenv func(string) string) string {
	port := getenv("MASTER_PORT")
	if n, err := strconv.Atoi(port); err == nil && strings.EqualFold(getenv("TORCHELASTIC_USE_AGENT_STORE"), "true") {
		return strconv.Itoa(n%65535 + 1)
	}
	return port
}

// slurmLeader is the first host of the step's node list: "n[03-07,9],m1" → n03.
func slurmLeader(getenv func(string) string) string {
	list := getenv("SLURM_STEP_NODELIST")
	head, rest, bracket := strings.Cut(list, "[")
	if first, _, comma := strings.Cut(head, ","); comma || !bracket {
		return first
	}
	end := strings.IndexAny(rest, ",-]")
	if end < 0 {
		return ""
	}
	return head + rest[:end]
}

// slurmPort derives a port from the job's number, the same on all nodes.
func slurmPort(getenv func(string) string) string {
	id, err := strconv.Atoi(getenv("SLURM_JOB_ID"))
	if err != nil {
		return ""
	}
	return strconv.Itoa(20000 + id%20000)
}
