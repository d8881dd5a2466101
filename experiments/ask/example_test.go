package ask_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
)

// How long a step of ResNet-50 takes on 8 workers at 10 Gb/s, computing nothing.
func ExampleMeasure() {
	c := config.Default()
	for _, kv := range strings.Fields("weightless=true timing=resnet50 mode=reduce workers=8 batch=32 steps=4 epochs=0 device.flops=10e12 device.codec=free network.bandwidth=10Gbps") {
		key, value, _ := strings.Cut(kv, "=")
		if err := c.Set(key, value); err != nil {
			panic(err)
		}
	}
	m, err := ask.Measure(context.Background(), c, ask.Watch{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.0f samples/s, %d bytes up\n", m.Rate(1, 8*32), m.BytesUp)
	// Output: 1181 samples/s, 5725234144 bytes up
}
