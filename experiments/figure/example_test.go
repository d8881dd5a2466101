package figure_test

import (
	"bytes"
	"fmt"
	"os"

	"github.com/gradlab/gradlab/experiments/figure"
)

// Two curves with a band, as SVG; PNG and PDF are drawn alike.
func Example() {
	svg, err := figure.SVG(figure.Figure{
		Title: "accuracy over time", Target: 0.95,
		X: figure.Axis{Label: "time", Log: true, Unit: figure.Seconds}, Y: figure.Axis{Label: "test accuracy", Unit: figure.Percent},
		Series: []figure.Series{
			{Name: "raw", X: []float64{1, 10, 100}, Y: []float64{0.5, 0.9, 0.97}, Lo: []float64{0.4, 0.88, 0.96}, Hi: []float64{0.6, 0.92, 0.98}},
			{Name: "qsgd(bits=4)", X: []float64{0.3, 3, 30}, Y: []float64{0.5, 0.9, 0.97}},
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(bytes.Contains(svg, []byte("qsgd(bits=4)")), bytes.HasSuffix(bytes.TrimSpace(svg), []byte("</svg>")))
	// Output:
	// true true
}

// The same writer makes boxes for terminals, Markdown and CSV.
func ExampleTable() {
	t := figure.Table{Header: []string{"codec", "bytes"}, Rows: [][]string{{"raw", "2.7 GB"}, {"sign", "84.1 MB"}}, Right: []bool{false, true}}
	if err := t.Write(os.Stdout, "markdown", 0); err != nil {
		panic(err)
	}
	// Output:
	// | codec | bytes |
	// | --- | ---:|
	// | raw | 2.7 GB |
	// | sign | 84.1 MB |
}
