package advise_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments/advise"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// Is it worth compressing ResNet-50's gradients between 16 V100 at 10 Gb/s, if a
// core encodes half a gigabyte a second?
func Example() {
	q, err := advise.Ask([]string{"timing=resnet50", "workers=16", "network.bandwidth=10Gbps", "network.latency=30us", "device=v100"})
	if err != nil {
		panic(err)
	}
	q.Codecs, q.Modes = []string{"raw", "qsgd(bits=4)"}, false
	speeds, err := coding.StatedTable("stated", map[string]coding.Stated{"qsgd(bits=4)": {Encode: 0.5e9, Decode: 1e9}})
	if err != nil {
		panic(err)
	}
	q.Places.Rates = &coding.Record{Key: q.Base.DeviceCodec, Tables: []*hardware.CodecTable{speeds}}
	options, err := q.Options(context.Background())
	if err != nil {
		panic(err)
	}
	known, err := q.Know(options, nil) // from what ships, and no runs of our own
	if err != nil {
		panic(err)
	}
	v := advise.Decide(advise.Best(options), known)
	fmt.Println("compress:", v.Compress)
	fmt.Printf("best with %s, a step of about %.1f s\n", v.Choice.Config.Codec, v.Choice.Step)
	// Output:
	// compress: false
	// best with raw, a step of about 0.3 s
}
