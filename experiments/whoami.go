package experiments

import (
	"fmt"
	"hash/fnv"
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

	Local int  // ranks on this host, this one too, as the launcher says; 0: it does not
	CPUs  int  // cores granted to this rank; 0: nothing says so
	Binds bool // the launcher may have bound this rank to its share of the cores
}

// launcher is a set of variables that say which rank a process is.
type launcher struct {
	name, rank, world string
	local             string // ranks of this host; "": none of its variables says so
	binds             bool
}

var launchers = []launcher{
	{name: "torchrun's variables", rank: "RANK", world: "WORLD_SIZE", local: "LOCAL_WORLD_SIZE"},
	{name: "torchrun's PET variables", rank: "PET_NODE_RANK", world: "PET_NNODES"},
	{name: "Open MPI's variables", rank: "OMPI_COMM_WORLD_RANK", world: "OMPI_COMM_WORLD_SIZE", local: "OMPI_COMM_WORLD_LOCAL_SIZE", binds: true},
	{name: "PMI's variables", rank: "PMI_RANK", world: "PMI_SIZE", local: "MPI_LOCALNRANKS", binds: true},
	{name: "Slurm's variables", rank: "SLURM_PROCID", world: "SLURM_NTASKS", binds: true},
	{name: "the job's completion index", rank: "JOB_COMPLETION_INDEX"},
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
	for _, l := range launchers {
		text := getenv(l.rank)
		if text == "" || (l.rank == "SLURM_PROCID" && getenv("SLURM_STEP_ID") == "") || l.rank == "PMI_RANK" && bySrun(getenv) {
			continue
		}
		w := Who{Coordinator: coordinator, Source: l.name, Binds: l.binds}
		var err error
		if w.Rank, err = strconv.Atoi(text); err != nil || w.Rank < 0 {
			return Who{}, fmt.Errorf("%s is %q, want a rank", l.rank, text)
		}
		if w.World, err = number(fixed(getenv), l.world, "a number of ranks"); err != nil {
			return Who{}, err
		}
		if w.Local, err = number(getenv, l.local, "a number of ranks"); err != nil {
			return Who{}, err
		}
		if err := w.particular(getenv); err != nil {
			return Who{}, err
		}
		if w.Coordinator == "" {
			if w.Coordinator, err = w.meeting(getenv); err != nil {
				return Who{}, err
			}
			if w.Coordinator == "" {
				return Who{}, fmt.Errorf("rank %d from %s, but nothing says where the coordinator is: set MASTER_ADDR and MASTER_PORT, or give --coordinator host:port", w.Rank, l.name)
			}
		}
		w.Lead = w.Rank == 0
		return w, nil
	}
	if text := getenv("TF_CONFIG"); text != "" {
		return whoInTFConfig(text, coordinator)
	}
	return Who{}, fmt.Errorf("no rank: give --rank and --coordinator, or start this under torchrun, mpirun, srun, an indexed job or with TF_CONFIG")
}

// bySrun reports whether PMI's variables are those of srun --mpi=pmi2, beside which Slurm's
// say where the coordinator is. Those of an mpirun within a step name other ranks.
func bySrun(getenv func(string) string) bool {
	size := getenv("SLURM_STEP_NUM_TASKS")
	if size == "" {
		size = getenv("SLURM_NTASKS")
	}
	same := func(name, text string) bool { return text == "" || getenv(name) == "" || getenv(name) == text }
	return getenv("SLURM_STEP_ID") != "" && getenv("SLURM_PROCID") != "" && same("PMI_RANK", getenv("SLURM_PROCID")) && same("PMI_SIZE", size)
}

// number reads a variable that counts; 0: it is not set.
func number(getenv func(string) string, name, want string) (int, error) {
	if name == "" || getenv(name) == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(getenv(name))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, want %s", name, getenv(name), want)
	}
	return n, nil
}

// fixed reads torchrun's range of nodes as a number where it is one: "3:3" is 3.
func fixed(getenv func(string) string) func(string) string {
	return func(name string) string {
		text := getenv(name)
		if least, most, isRange := strings.Cut(text, ":"); isRange && least == most {
			return least
		}
		return text
	}
}

// particular reads what only one launcher says.
func (w *Who) particular(getenv func(string) string) (err error) {
	switch w.Source {
	case "torchrun's PET variables":
		// Without torchrun nobody starts a node's processes: each node's is one rank.
		if n, err := strconv.Atoi(getenv("PET_NPROC_PER_NODE")); err == nil && n > 1 {
			return fmt.Errorf("PET_NPROC_PER_NODE is %d, but gradlab join is one rank: have one process a node, or start it by torchrun", n)
		}
	case "Slurm's variables":
		if n, err := strconv.Atoi(getenv("SLURM_STEP_NUM_TASKS")); err == nil && n > 0 {
			w.World = n
		}
		w.Local = slurmLocal(getenv("SLURM_STEP_TASKS_PER_NODE"), getenv("SLURM_NODEID"))
		w.CPUs, err = number(getenv, "SLURM_CPUS_PER_TASK", "a number of cores")
	}
	return err
}

// meeting is where the launcher's variables have the coordinator listen; "": they
// do not say.
func (w *Who) meeting(getenv func(string) string) (at string, err error) {
	addr, port := strings.Trim(getenv("MASTER_ADDR"), "[]"), masterPort(getenv)
	switch w.Source {
	case "torchrun's PET variables":
		if addr == "" {
			addr, port = strings.Trim(getenv("PET_MASTER_ADDR"), "[]"), getenv("PET_MASTER_PORT")
		}
	case "Slurm's variables":
		if addr == "" {
			if addr, err = slurmLeader(getenv("SLURM_STEP_NODELIST")); err != nil {
				return "", fmt.Errorf("SLURM_STEP_NODELIST: %w", err)
			}
		}
		if port == "" {
			port = slurmPort(getenv)
		}
	case "Open MPI's variables":
		// Where all ranks are on this host, loopback will do, at a port of this job.
		if job := getenv("PMIX_NAMESPACE"); addr == "" && job != "" && w.Local > 0 && w.Local == w.World {
			h := fnv.New32a()
			_, _ = h.Write([]byte(job))
			addr, port = "127.0.0.1", strconv.Itoa(int(20000+h.Sum32()%20000))
		}
	}
	if addr == "" || port == "" {
		return "", nil
	}
	return net.JoinHostPort(addr, port), nil
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

// slurmLeader returns the first host of a list of nodes, as scontrol show hostnames prints
// it: "n[03-07,9],m1" → n03, "rack[0-1]_blade[0-1]" → rack0_blade0. Like scontrol it refuses
// a name that goes on behind its last bracket; "": the list is empty.
func slurmLeader(list string) (host string, err error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%q: %s; want names such as n1, n[03-07,9] or rack[0-1]_blade[0-1], or set MASTER_ADDR", list, why)
	}
	rest := list
	for rest != "" && rest[0] != ',' {
		head, inside, bracket := strings.Cut(rest, "[")
		if name, _, comma := strings.Cut(head, ","); comma || !bracket {
			if host != "" {
				return bad(fmt.Sprintf("%q stands behind the last bracket of a name", name))
			}
			return name, nil
		}
		ranges, after, closed := strings.Cut(inside, "]")
		if !closed {
			return bad("a bracket is not closed")
		}
		first, _, _ := strings.Cut(ranges, ",")
		first, _, _ = strings.Cut(first, "-")
		if first == "" || strings.Trim(first, "0123456789") != "" {
			return bad(fmt.Sprintf("%q is no range of numbers", ranges))
		}
		host, rest = host+head+first, after
	}
	return host, nil
}

// slurmPort derives a port from the numbers of the job and its step, the same on all
// nodes. Steps of one job differ, and so do the steps of jobs that follow each other.
func slurmPort(getenv func(string) string) string {
	id, err := strconv.Atoi(getenv("SLURM_JOB_ID"))
	if err != nil {
		return ""
	}
	step, _ := strconv.Atoi(getenv("SLURM_STEP_ID")) // none: 0
	return strconv.Itoa(20000 + (id+617*step)%20000)
}

// slurmLocal is how many tasks of the step run on a node: "4(x2),3" and node 2 → 3;
// 0: it does not say.
func slurmLocal(tasks, node string) int {
	at, err := strconv.Atoi(node)
	if err != nil {
		return 0
	}
	for _, part := range strings.Split(tasks, ",") {
		count, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.Atoi(count)
		if err != nil {
			return 0
		}
		nodes := 1
		if repeated {
			if nodes, err = strconv.Atoi(strings.TrimSuffix(times, ")")); err != nil {
				return 0
			}
		}
		if at < nodes {
			return n
		}
		at -= nodes
	}
	return 0
}
