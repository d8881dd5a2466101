package launch_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/launch"
)

// A run of eight workers on four nodes: the script for sbatch, of which the command is
// shown.
func ExampleJob_Slurm() {
	j := &launch.Job{
		Name: launch.Named("ResNet-50, 8 workers"), Program: "gradlab", Workers: 8,
		Recipe: "goyal2017", Keys: []string{"data=imagenet", "codec=feedback(topk(keep=0.01))"},
		Out: "runs", CPUs: 16, Restarts: 10, Timeout: 10 * time.Minute,
	}
	script, err := j.Slurm(launch.Slurm{Nodes: 4, Grace: 2 * time.Minute, Options: []string{"time=12:00:00"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(string(script)) {
		if strings.HasPrefix(line, "srun") || strings.HasPrefix(line, "export SRUN") || strings.HasPrefix(line, "  --") || strings.Contains(line, "SBATCH --n") || strings.Contains(line, "SBATCH --time") {
			fmt.Print(line)
		}
	}
	// Output:
	// #SBATCH --ntasks=8
	// #SBATCH --nodes=4
	// #SBATCH --time=12:00:00
	// export SRUN_CPUS_PER_TASK=16
	// srun gradlab join goyal2017 data=imagenet 'codec=feedback(topk(keep=0.01))' \
	//   --out runs --resume --timeout 10m
}
