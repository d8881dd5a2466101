package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/ask"
)

func (e *env) whatifCommand() *cobra.Command {
	var asJSON bool
	var draws int
	c := &cobra.Command{
		Use:   "whatif RUN key=value…",
		Short: "A recorded run with another network, codec or placement",
		Long: `Whatif replays a recorded run on the virtual cluster, as it was and with keys
changed (gradlab list keys), and compares times and bytes. A list of values makes
one replay each. Nothing is learned: frames are empty where their sizes do not
depend on gradients, and of runs whose updates are all alike the first 200 stand
for the rest, so most replays take seconds. All updates are replayed where later
ones differ: in mode localsgd, with downpour's warm_start, with dgc's warm-up, with
policy adasync and with faults.

Beside each time of a replay without weights stands where it lies on a real cluster
in nine cases of ten, by what was measured of transports (gradlab list transports).

Where sizes depend on gradients, those that the run noted (sizes.gz) are taken as
long as the change leaves alone what is learned. Otherwise gradients are computed,
and only then the data set is needed.

  gradlab whatif runs/quickstart/… network.bandwidth=100Mbps,1Gbps,10Gbps
  gradlab whatif runs/quickstart/… 'codec=qsgd(bits=4)' mode=reduce overlap=buckets`,
		Args: runAnd(" and what to change, such as network.bandwidth=10Gbps", 1, 1000),
		RunE: func(cmd *cobra.Command, args []string) error {
			if draws < 0 {
				return usageError{fmt.Errorf("--draws=%d: want the number of draws, or 0 for no intervals", draws)}
			}
			r, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			w, err := ask.AnswerWhatIf(cmd.Context(), r.Folder, args[1:], e.places(), draws)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				return enc.Encode(w)
			}
			return w.Write(e.out, "box")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	c.Flags().IntVar(&draws, "draws", ask.Draws, "draws of uncertain parameters that the 90 % intervals rest on; 0: no intervals")
	return c
}
