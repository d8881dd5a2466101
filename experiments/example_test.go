package experiments_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

// A recipe is text; its runs leave folders that every command reads.
func Example() {
	recipe, err := config.ParseRecipe("mine", "mine.yaml", []byte(`
model: mlp(hidden=[32])
data: digits
net: sim
transport: ideal
workers: 4
batch: 16
steps: 60
schedule: constant(lr=0.2)
codec: [raw, qsgd(bits=4)]
`))
	if err != nil {
		panic(err)
	}
	runs, err := recipe.Runs([]string{"mode=reduce"}, false)
	if err != nil {
		panic(err)
	}
	out, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(out)
	results, err := experiments.ExecuteAll(context.Background(), runs, experiments.Options{Recipe: recipe.Name, Out: out})
	if err != nil {
		panic(err)
	}
	for _, r := range results {
		fmt.Printf("%s: %d bytes, %.1f ms of virtual time, accuracy above 0.8: %v\n", r.Name, r.BytesUp, 1e3*r.VirtualSeconds, r.Values["accuracy"] > 0.8)
	}
	// Output:
	// codec=raw: 3470400 bytes, 25.1 ms of virtual time, accuracy above 0.8: true
	// codec=qsgd(bits=4): 887760 bytes, 11.3 ms of virtual time, accuracy above 0.8: true
}

// A key that does not exist is an error that names the nearest one.
func ExampleConfig_Set() {
	c := config.Default()
	fmt.Println(c.Set("codec", "topk(keep=0.01)"), c.Get("codec"))
	mistake, _, _ := strings.Cut(c.Set("codek", "raw").Error(), ";")
	fmt.Println(mistake)
	_, advice, _ := strings.Cut(c.Set("codek", "raw").Error(), "; ")
	advice, _, _ = strings.Cut(advice, "?")
	fmt.Println(advice + "?")
	// Output:
	// <nil> topk(keep=0.01)
	// unknown key "codek"
	// did you mean "codec"?
}
