package cli

import (
	"encoding/json"
	"fmt"
	"os"

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
			path := args[0]
			if _, err := os.Stat(path); err != nil {
				runs, err := e.selected("runs", args)
				if err != nil {
					return err
				}
				path = runs[len(runs)-1].Folder
			}
			rec, err := experiments.ReadRecord(path)
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
