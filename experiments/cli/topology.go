package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
)

func (e *env) topologyCommand() *cobra.Command {
	var q ask.TopologyQuestion
	var svg, adding string
	var asJSON bool
	var moves int
	c := &cobra.Command{
		Use:   "topology NAME RANKS [BYTES] [key=value…]",
		Short: "A topology's plan, proof and cost; a gossip graph's gap",
		Long: `Topology says what an all-reduce over a topology (gradlab list topologies) does
with a vector of so many bytes: the moves of a rank, the proof that they add up,
what all topologies cost, and at which lengths this one and the others change
places. Keys are those that say what ranks are connected by, as of a run.

  gradlab topology double_tree 16 64MB
  gradlab topology 'leaders(halving)' 32 100MB network.per_host=8 network.bandwidth=10Gbps

Without BYTES it shows a gossip graph (gradlab list graphs): neighbours, weights, and
the spectral gap beside that of the others.

  gradlab topology one_peer 8

Time is that of the alpha-beta-gamma model, frame by frame along the critical path,
and no less than what the busiest NIC and the busiest rack take for their bytes; the
crossovers and the figure are made of it. Virtual cluster is the time of a run there,
where pieces of a move overlap and streams share NICs and racks at every instant: it
is the one to believe, and rows are in its order if all topologies could be tried.
It heeds all keys, the model those of bandwidth, latency, messages, streams and racks.
The largest gap is that of tree, whose children share a NIC: 64 MB take 1.2 times as
long there as in the model with 4 ranks, 1.9 times with 32.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return usageError{fmt.Errorf("topology wants a name and a number of ranks, and bytes if it is one of all-reduces, not %d arguments", len(args))}
			case len(args) == 2 && cmd.Flags().NFlag() > 0:
				return usageError{errors.New("a gossip graph has no flags; they are for all-reduces, with bytes behind the ranks")}
			}
			for _, a := range args[2:] {
				if strings.HasPrefix(a, "topology=") {
					return usageError{fmt.Errorf("%s: the topology is the first argument", a)}
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&adding, "adding", "10GB/s", "bytes of sums a rank makes per second; 0: for nothing")
	c.Flags().IntVar(&q.Rank, "rank", 0, "whose moves are shown")
	c.Flags().IntVar(&moves, "moves", 20, "how many moves are shown")
	c.Flags().BoolVar(&q.Prove, "prove", false, "prove the plan however long it takes")
	c.Flags().StringVar(&svg, "svg", "", "file for a figure of time over length, a curve a topology")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if q.Ranks, err = strconv.Atoi(args[1]); err != nil || q.Ranks < 1 {
			return usageError{fmt.Errorf("ranks: want a number, not %q", args[1])}
		}
		if len(args) == 2 {
			g, err := collective.Graphs.Parse(args[0])
			switch {
			case err != nil:
				return usageError{fmt.Errorf("without BYTES: %w", err)}
			case q.Ranks > 4096:
				return usageError{fmt.Errorf("ranks: want 1 … 4096, not %d", q.Ranks)}
			}
			return ask.WriteGraph(e.out, g, q.Ranks)
		}
		if q.Topology, err = collective.Topologies.Parse(args[0]); err != nil {
			return usageError{err}
		}
		if q.Bytes, err = config.ParseBytes(args[2]); err != nil {
			return usageError{err}
		}
		if q.On, err = config.Connected(q.Ranks, args[3:]); err != nil {
			return usageError{err}
		}
		speed, err := config.ParseBytes(strings.TrimSuffix(adding, "/s"))
		if err != nil {
			return usageError{fmt.Errorf("--adding: %w", err)}
		}
		q.Adding = float64(speed)
		r, err := ask.AnswerTopology(cmd.Context(), q)
		if err != nil {
			return err
		}
		if svg != "" {
			b, err := figure.SVG(r.Figure())
			if err == nil {
				err = os.WriteFile(svg, b, 0o644)
			}
			if err != nil {
				return err
			}
		}
		if asJSON {
			enc := json.NewEncoder(e.out)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
		return r.Write(e.out, "box", moves)
	}
	return c
}
