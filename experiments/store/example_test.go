package store_test

import (
	"fmt"
	"os"
	"time"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Runs below a folder, filtered, grouped over their seeds and compared.
func Example() {
	runs, err := store.Find("testdata/runs")
	if err != nil {
		panic(err)
	}
	condition, err := store.ParseCondition("mode=reduce", time.Now())
	if err != nil {
		panic(err)
	}
	runs = store.Filter(runs, condition)
	field, err := store.FieldNamed("accuracy")
	if err != nil {
		panic(err)
	}
	groups := store.Groups(runs)
	for _, g := range groups {
		fmt.Println(g.Label, g.Values(field))
	}
	c, err := store.Compare(groups, 0, field, record.Goal{})
	if err != nil {
		panic(err)
	}
	if err := c.Write(os.Stdout, "markdown", 0); err != nil {
		panic(err)
	}
	// Output:
	// raw [0.9275766016713092 0.9275766016713092]
	// feedback(topk(keep=0.01)) [0.7938718662952646 0.83008356545961]
	// | codec | n | last accuracy | difference | p | bytes | seconds | updates to 0.95 | time to 0.95 | bytes to 0.95 |
	// | --- | ---:| ---:| ---:| ---:| ---:| ---:| ---:| ---:| ---:|
	// | raw | 2 | 0.9276 ± 0.0000 |  |  | 40.1 MB | 186ms | never | never | never |
	// | feedback(topk(keep=0.01)) | 2 | 0.8120 ± 0.2301 | −0.1156 ± 0.2301 | 0.10   | 506.3 kB | 28ms | never | never | never |
	// ± is half a 95 % interval (Student's t over seeds).
	// Times, bytes and updates to the target are medians over seeds with their range; a seed that never got there counts as never.
	// Differences are against the first row, seed by seed; p is corrected for the number of different rows (Holm), * is below 0.05.
	// Virtual times are on an ideal software stack (transport=ideal).
	// In virtual time codecs were not billed (device.codec=free).
}
