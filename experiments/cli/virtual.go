package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/virtual"
)

func (e *env) virtualCommand() *cobra.Command {
	var o virtual.Options
	var record, from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "virtual [key=value…] -- COMMAND [ARGUMENT…]",
		Short: "How long a PyTorch script would take on a cluster",
		Long: `Virtual starts a script of torch.distributed whose ranks are all on this machine, and
says how long it would take if each had a machine of its own, in this network. The
script says init_process_group("gradlab") after import gradlab.virtual, or is run by
python3 -m gradlab.virtual, which says so in its place.

  gradlab virtual network.bandwidth=10Gbps -- torchrun --nproc_per_node=8 train.py
  gradlab virtual --ranks 8 cluster=p3-16xlarge -- python3 -m gradlab.virtual train.py
  gradlab virtual --ranks 8 --record run.jsonl -- python3 train.py
  gradlab virtual --from run.jsonl network.bandwidth=1Gbps

What is learned is real: gloo moves the numbers. Time is virtual: a rank computes for
as long as its main thread had a core here, and waits for collectives that take what
the virtual cluster takes to move their bytes. Ranks that share cores are not billed
for it. --speed says how many times as fast the devices are. What a GPU computes and
what other processes read is not measured: gradlab.virtual.spend(seconds) states it.

With a codec in between (gradlab.ddp_hook), its encoding is computing beside the main
thread, and its payloads are what is moved; docs/from-pytorch.md has an example.

Keys are cluster, transport, node, topology and those of network.* and constants.*
(gradlab list keys) that are of the network; of a sheet only what it says of that counts.`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				dash = len(args)
			}
			o.Keys, o.Command = args[:dash], args[dash:]
			if (from == "") == (len(o.Command) == 0) {
				return usageError{errors.New("virtual wants a command behind --, such as gradlab virtual network.bandwidth=10Gbps -- torchrun --nproc_per_node=8 train.py, or --from and the file that --record wrote")}
			}
			if from != "" && (o.Ranks != 0 || o.Stated || record != "") {
				return usageError{errors.New("with --from nothing is started: --ranks, --stated and --record go with a command")}
			}
			if o.Ranks < 0 || o.Ranks > 4096 {
				return usageError{fmt.Errorf("--ranks %d: want 1 to 4096, or 0 where the command starts them", o.Ranks)}
			}
			return nil
		},
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var r *virtual.Result
		err := func() (err error) {
			if from != "" {
				f, err := os.Open(from)
				if err != nil {
					return usageError{err}
				}
				defer f.Close()
				if r, err = virtual.Replay(cmd.Context(), f, o.Keys, o.Speed); err != nil {
					return fmt.Errorf("%s: %w", from, err)
				}
				return nil
			}
			if o.Env, o.Stdout, o.Stderr = os.Environ(), e.raw, e.screen; asJSON {
				o.Stdout = e.screen
			}
			if record != "" {
				f, err := os.OpenFile(record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
				if err != nil {
					return usageError{err}
				}
				defer func() { err = errors.Join(err, f.Close()) }()
				o.Record = io.Writer(f)
			}
			r, err = virtual.Run(cmd.Context(), o)
			return err
		}()
		if err != nil {
			return err
		}
		if asJSON {
			return e.writeJSON(r)
		}
		return r.Write(e.out)
	}
	c.Flags().IntVar(&o.Ranks, "ranks", 0, "start the command so often, a rank each; 0: it starts its ranks")
	c.Flags().Float64Var(&o.Speed, "speed", 1, "how many times as fast devices compute as a core of this machine")
	c.Flags().BoolVar(&o.Stated, "stated", false, "computing takes what the script states (gradlab.virtual.spend), and is not measured")
	c.Flags().StringVar(&record, "record", "", "`file` for what the ranks did, to play it on other clusters")
	c.Flags().StringVar(&from, "from", "", "play what is in this `file`, and start nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document; what the ranks print goes to standard error")
	return c
}
