package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
)

func (e *env) showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "A run's record: configuration, curve, result",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("show needs one run folder")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := experiments.ReadRecord(args[0])
			if err != nil {
				return usageError{err}
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				return enc.Encode(rec)
			}
			return rec.Write(e.out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}
