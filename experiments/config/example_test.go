package config_test

import (
	"fmt"

	"github.com/gradlab/gradlab/experiments/config"
)

// A recipe is text. A list makes a run for each value, and what is said on the command
// line stands above the recipe.
func Example() {
	recipe, err := config.ParseRecipe("mine", "mine.yaml", []byte("data: digits\nworkers: [2, 4]\n"))
	if err != nil {
		panic(err)
	}
	runs, err := recipe.Runs([]string{"network.bandwidth=10Gbps"}, false)
	if err != nil {
		panic(err)
	}
	for _, r := range runs {
		fmt.Println(r.Name, r.Config.Show("network.bandwidth"), r.Config.Get("codec"))
	}
	// Output:
	// workers=2 10Gbps raw
	// workers=4 10Gbps raw
}
