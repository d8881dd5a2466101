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
		Short: "One run: configuration, curve, result",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("show wants one run: its folder, or its id from gradlab runs list")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := e.one("runs", args[0])
			if err != nil {
				return err
			}
			rec, err := experiments.ReadRecord(r.Folder)
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
