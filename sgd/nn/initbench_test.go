package nn

import (
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// Initial weights of a large model, in values drawn a second.
func BenchmarkInit(b *testing.B) {
	m, err := Models.MustParse("resnet50").New(sgd.Sample{Shape: sgd.Shape{C: 3, H: 224, W: 224}, Classes: 1000})
	if err != nil {
		b.Fatal(err)
	}
	params := make([]float32, m.Layout().Size())
	b.SetBytes(int64(4 * len(params)))
	for b.Loop() {
		m.Init(params, 1)
	}
}
