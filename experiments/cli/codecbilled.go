package cli

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// codecBilled is how a codec's rates here compare with those that runs are billed.
type codecBilled struct {
	Table string  `json:"table"`
	Times float64 `json:"times"` // as long as the table has it, once the machine's speed is taken out
}

// oddTimes is the factor beyond which a table's rate is said to be of another codec: machines
// differ by less between one codec and the next.
const oddTimes = 5

// yardstick is the codec by which the speed of a machine is taken out of another's.
func yardstick(spec string) string {
	if spec == "bf16" {
		return "fp16"
	}
	return "bf16"
}

// billed measures a codec and the yardstick, and compares them with what runs are billed.
func billed(f compress.Family) (*codecBilled, error) {
	table, err := coding.Load(coding.Default)
	if err != nil {
		return nil, err
	}
	by, err := compress.Parse(yardstick(compress.Spec(f)))
	if err != nil {
		return nil, err
	}
	here, err := coding.One(f)
	if err != nil {
		return nil, err
	}
	cast, err := coding.One(by)
	if err != nil {
		return nil, err
	}
	return billedAt(table, here, cast), nil
}

// billedAt compares what was measured of a codec with the table's rate. The machine's own
// speed is taken out by the yardstick's, here and in the table. nil: the table lacks the
// codec, which runs then measure, or has it at no time at all.
func billedAt(table *hardware.CodecTable, here, by *hardware.CodecRate) *codecBilled {
	over := func(r *hardware.CodecRate) float64 {
		known := table.Find(r.Codec, r.Block, 0)
		if known == nil {
			return 0
		}
		n := r.Elements[0]
		return (r.Seconds(n, false) + r.Seconds(n, true)) / (known.Seconds(n, false) + known.Seconds(n, true))
	}
	times := over(here) / over(by)
	if !(times > 0) || math.IsInf(times, 0) {
		return nil
	}
	return &codecBilled{Table: table.Name, Times: times}
}

// words say what the comparison comes to, and what to type where the table's rate is of
// another codec.
func (b *codecBilled) words(spec string) string {
	s := fmt.Sprintf("that is %.2g times the time that the table of rates %s bills it on net=sim, beside %s on the same core", b.Times, b.Table, yardstick(spec))
	if b.Times < oddTimes && b.Times > 1/float64(oddTimes) {
		return s
	}
	return s + fmt.Sprintf(": it is not the codec that was measured for the table\nto bill what it takes: device.codec=here, or gradlab bench codecs '%s' --out rates.yaml and device.codec=./rates.yaml", spec)
}
