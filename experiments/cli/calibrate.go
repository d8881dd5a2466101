package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/progress"
)

func (e *env) calibrateCommand() *cobra.Command {
	var rows, out string
	var asJSON bool
	c := &cobra.Command{
		Use:   "calibrate FILE… [key=value…]",
		Short: "Fit the virtual cluster to times measured on yours",
		Long: `Calibrate reads times that were measured on a cluster, and fits what they can tell of
its devices, network and software. What they cannot tell stays at what was measured
of the transport elsewhere (gradlab list transports).

  gradlab calibrate mine.csv network.bandwidth=25Gbps network.per_host=4 --out mine.yaml
  gradlab calibrate nccl.log mine.csv transport=nccl-tcp --fit 1-12
  gradlab calibrate runs/mine model=resnet50 network.bandwidth=10Gbps
  gradlab whatif runs/… cluster=./mine.yaml

A table has a line of heads: model (a profile, gradlab list profiles, layers of yours,
./layers.yaml, or the folder of a run), workers, batch,
codec or any other key, and one of images_per_second, samples_per_second (both of all
workers), step_seconds, step_ms. Logs of nccl-tests' all_reduce_perf, of Horovod's
pytorch_synthetic_benchmark and of PyTorch's ImageNet example are read as they are, with
the prefixes of launchers, and so is gradlab bench collectives --json; what they do not
say, keys say. Each table of nccl-tests has the ranks that are listed before it. Of a folder the
runs on a real clock are taken (net=local, grpc or mpi), those whose gradients a program
computes among them: the median time of an update. Bandwidth and latency of the links
between hosts are fitted too where nobody says them.

Points are numbered in order. Without --fit all are fitted; with it the others are held
out, predicted with an interval, and judge. Each fitted point is also predicted from the
others. --out writes a file for cluster=, with the keys and how well each is known now:
whatif, advise and --timing draw their intervals from that.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || strings.Contains(args[0], "=") {
				return usageError{errors.New("calibrate wants a file of measured times first, such as gradlab calibrate mine.csv network.bandwidth=25Gbps")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if ext := filepath.Ext(out); !slices.Contains([]string{"", ".yaml", ".yml"}, strings.ToLower(ext)) {
				return usageError{fmt.Errorf("--out %s: a cluster is written as .yaml, not %s", out, ext)}
			}
			d := progress.New(e.screen)
			defer d.Close()
			q := ask.QuestionOfPoints{Places: e.places(), Show: d}
			for _, a := range args {
				if strings.Contains(a, "=") {
					if k, v, _ := strings.Cut(a, "="); k == "model" {
						a = "timing=" + v
					}
					q.Keys = append(q.Keys, a)
					continue
				}
				m, err := ask.ReadMeasurements(a)
				if err != nil {
					return usageError{err}
				}
				q.Measurements = append(q.Measurements, m...)
			}
			var err error
			if q.Fit, err = numbers(rows); err != nil {
				return usageError{fmt.Errorf("--fit %s: %w", rows, err)}
			}
			r, err := ask.Calibrate(cmd.Context(), q)
			if err != nil {
				return err
			}
			if out != "" {
				b, err := r.Cluster(strings.TrimSuffix(filepath.Base(out), filepath.Ext(out)) + ", calibrated")
				if err == nil {
					err = os.WriteFile(out, b, 0o644)
				}
				if err != nil {
					return err
				}
			}
			if asJSON {
				return e.writeJSON(r)
			}
			if err := r.Write(e.out, "box"); err != nil {
				return err
			}
			if out != "" {
				use := out
				if !strings.ContainsAny(use, `/\`) {
					use = "./" + use
				}
				fmt.Fprintf(e.out, "%s is a cluster now: cluster=%s\n", out, use)
			}
			return nil
		},
	}
	c.Flags().StringVar(&rows, "fit", "", "points that are fitted, as 1,3,5-8; none: all")
	c.Flags().StringVar(&out, "out", "", "`file` for the cluster, .yaml")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return c
}

// numbers reads 1,3,5-8.
func numbers(text string) (out []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		lo, hi, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(hi)
		}
		if err != nil || a < 1 || b < a || b > ask.MostPoints {
			return nil, fmt.Errorf("%q is neither a number nor a range such as 5-8, of points up to %d", part, ask.MostPoints)
		}
		for i := a; i <= b; i++ {
			if !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	return out, nil
}
