package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
)

// versionCommand says which gradlab this is; runs keep the same in env.json.
func (e *env) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Which gradlab this is, and on what: version, revision, kernels",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := experiments.ThisVersion()
			model, features, kernels := experiments.Processor()
			if asJSON {
				return json.NewEncoder(e.out).Encode(map[string]any{
					"module": v.Module, "revision": v.Revision, "modified": v.Modified, "go": v.Go, "platform": v.Platform,
					"cpu": model, "features": features, "kernels": kernels,
				})
			}
			_, err := fmt.Fprintf(e.out, "%v\nprocessor  %s\nfeatures   %s\nkernels    %s\n", v, model, features, kernels)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}
