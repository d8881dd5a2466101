package report_test

import (
	"bytes"
	"fmt"

	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// One page from run folders; it begins with the answer.
func Example() {
	runs, err := store.Find("../store/testdata/runs")
	if err != nil {
		panic(err)
	}
	r, err := report.New(runs, record.Goal{})
	if err != nil {
		panic(err)
	}
	for _, task := range r.Tasks {
		for _, sentence := range task.Answer() {
			fmt.Println(sentence)
		}
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		panic(err)
	}
	fmt.Println("a page:", bytes.HasPrefix(page.Bytes(), []byte("<!DOCTYPE html>")))
	// Output:
	// No configuration reaches 95 % in most of its runs: the best accuracy of an evaluation is 92.76 %, of raw. --target 0.95best asks for 95 % of that.
	// Most accurate, at the best evaluation: raw, 92.76 %, and 92.76 % at the end. The seeds do not tell it from any other.
	// No configuration dominates another: all 2 are on the Pareto front of time to 95 %, bytes to 95 % and best accuracy.
	// The network is saturated with raw: 85 % of a step or more is on the wire.
	// What seeds tell is told by multiple comparison with the best, α = 0.05.
	// Times are those of the virtual clock, on an ideal software stack (transport=ideal): what is not known of transport, device and codec rates is not in them.
	// In virtual time codecs were not billed (device.codec=free).
	// One configuration: quickstart reaches an accuracy of 88.02 % in 192ms and 31.1 MB.
	// a page: true
}
