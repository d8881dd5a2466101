package ask

import (
	"context"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// Every recipe of a paper gives a timing. Few workers stand for the paper's, whose
// number and plan of all-reduces are checked alone.
func TestEveryPaperHasItsTime(t *testing.T) {
	patience.Virtual(t)
	var papers []*config.Recipe
	for _, name := range config.RecipeNames() {
		r, err := config.LoadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.Paper != nil {
			papers = append(papers, r)
		}
	}
	for _, r := range patience.Few(6, papers) {
		name := r.Name
		form, err := r.Form(config.FormTiming)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, err := form.Runs(nil, false)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			for _, run := range whole {
				c := run.Config
				c.Weightless, c.Precision, c.EvalEvery = true, "float32", 0
				if _, err := (config.Run{Config: c}).Build(config.Places{}, nil); err != nil {
					t.Errorf("%s %s on %d workers: %v", name, run.Name, c.Workers, err)
				}
			}
			few, err := form.Runs([]string{"workers=4"}, false)
			if name == "airbench94" {
				few, err = whole, nil
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			row, err := timed(context.Background(), few[0], r.Paper, config.Places{}, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if row.Minutes <= 0 || row.Step <= 0 || row.Updates < 100 || row.Batch != whole[0].Global || row.Efficiency < 0 || row.Efficiency > 101 {
				t.Errorf("%s: %+v", name, row)
			}
			t.Logf("%s: %+v", name, *row)
		})
	}
}
