package cli

import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/coding"
)

// codecBilled is how a codec's rates here compare with those that runs are billed.
type codecBilled struct {
	Table string  `json:"table"`
	Times float64 `json:"times"` // as long as the table has it, once the machine's speed is taken out
}

// billed compares a codec with what runs are billed. nil: the table lacks the codec, which
// runs then measure, or has it at no time at all.
func billed(f compress.Family) (*codecBilled, error) {
	table, err := coding.Load(coding.Default)
	if err != nil {
		return nil, err
	}
	times, err := coding.NewMeter("").Beside(table, f)
	if err != nil || times == 0 {
		return nil, err
	}
	return &codecBilled{Table: table.Name, Times: times}, nil
}

// words say what the comparison comes to, and what to type where the table's rate is of
// another codec.
func (b *codecBilled) words(spec string) string {
	s := fmt.Sprintf("that is %.2g times the time that the table of rates %s bills it on net=sim, beside %s on the same core", b.Times, b.Table, coding.Yardstick(spec))
	if b.Times < coding.Odd {
		return s
	}
	return s + fmt.Sprintf(": virtual times billed by the table are too short for it\nto bill what it takes: device.codec=here, or gradlab bench codecs '%s' --out rates.yaml and device.codec=./rates.yaml", spec)
}
