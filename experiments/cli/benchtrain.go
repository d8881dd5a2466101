package cli

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/bench"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) benchTrainCommand() *cobra.Command {
	var models, precisions []string
	var threads []int
	var batch int
	var seconds float64
	var peer, python string
	var asJSON bool
	c := &cobra.Command{
		Use:   "train",
		Short: "Training steps of the standard models, beside PyTorch",
		Long: `Train takes whole training steps on one random batch: forward, backward, and an
update with SGD and momentum 0.9, or of texts with AdamW. The standard set is

  mnistcnn@28    batch 100    two convolutions and a wide dense layer
  mlp@28         batch 128    784-512-256-10
  resnet20@32    batch 128    the CIFAR ResNet
  resnet50@64    batch 16     ResNet-50 on small images
  resnet50@224   batch 8      ResNet-50 as it is trained on ImageNet
  gpt@64         batch 12     nanoGPT for laptops: 4 layers, 4 heads, 65 characters
  gpt-384@256    batch 8      6 layers and heads, 65 characters
  gpt-768@256    batch 2      GPT-2's size: 12 layers and heads, 50,304 tokens

--model chooses by name, with or without the side of the input or the length of the
text; gpt are all three. --precision bfloat16
trains in that precision, and PyTorch under autocast.

Columns. rate is the median over blocks of steps, in the images or tokens that unit
names a second, ± half of what lies between
the slowest and the fastest block. forward, backward and update come from steps
of their own: forward ends when the last layer asks for its parameters, so that
layer and the loss count as backward. GFLOP/s are nominal: three forward passes
a step, a convolution counted as the full matrix product. Nobody computes the
gradient of the input, a quarter of that for the mlp. Products of attention do not
count. "of best GEMM" compares them
with our own product of square matrices (sides 256 to 1024, the best of all rounds,
on the same threads): it is no peak of the machine, only the easiest work for the
same kernels, and nominal work can exceed it.

Threads bound this process by GOMAXPROCS and the kernels' own limit, and torch
by OMP_NUM_THREADS and torch.set_num_threads.

--peer torch runs PyTorch on the same model, block by block in turn with ours,
each variant in a process of its own that is stopped while it is not its turn:

  stock        as it is installed
  tuned        OpenBLAS over OpenMP, with AVX-512 where there is that, threads bound to
               cores, malloc keeps buffers
  tuned-nhwc   the same with channels last in memory
  …-compiled   the last of these under torch.compile, which PyTorch 2 has; it takes a
               minute or more to start, and a compiler of C++

The ratio is ours to that of the fastest variant: the median of the rounds'.
It needs a python with torch. In a folder of its own,

  python3 -m venv torch && torch/bin/pip install torch numpy
  gradlab bench train --peer torch --python torch/bin/python3

Debian's older one is python3-torch, with libopenblas0-openmp.`,
		Args: flagsOnly("bench train"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			display := progress.New(e.screen)
			defer display.Close()
			o := bench.TrainOptions{Threads: threads, Seconds: seconds, Command: append([]string{"gradlab"}, e.args...), Logf: display.Logf}
			var err error
			if o.Cases, err = bench.Pick(models, batch); err != nil {
				return usageError{err}
			}
			if o.Cases, err = bench.In(precisions, o.Cases); err != nil {
				return usageError{err}
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			switch peer {
			case "":
			case "torch":
				if o.Torch, err = bench.FindTorch(ctx, python, os.Environ()); err != nil {
					return usageError{err}
				}
			default:
				return usageError{fmt.Errorf("no peer %q; there is torch", peer)}
			}
			report, failed := bench.Train(ctx, o)
			return e.benchEnded(report, len(report.Rows) > 0, asJSON, failed)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&models, "model", nil, "which of the standard set (default all)")
	f.StringSliceVar(&precisions, "precision", []string{"float32"}, "float32, bfloat16, or both: a row for each")
	f.IntVar(&batch, "batch", 0, "batch size instead of the standard ones")
	f.IntSliceVar(&threads, "threads", defaultThreads(), "numbers of threads, a row for each")
	f.Float64Var(&seconds, "seconds", 2, "seconds of measuring for each contender and row, at least")
	f.StringVar(&peer, "peer", "", "who to measure beside us: torch")
	f.StringVar(&python, "python", "", "python that can import torch (default: python3, then /usr/bin/python3)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document with every figure")
	return c
}

// defaultThreads is one thread, and all cores.
func defaultThreads() []int {
	if n := runtime.NumCPU(); n > 1 {
		return []int{1, n}
	}
	return []int{1}
}
