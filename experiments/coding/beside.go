package coding

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// Odd is how many times as long as a table has it a codec takes, beside the yardstick, from
// which on it is said to be another codec than the one that was measured: machines differ by
// less between one codec and the next. Less time says nothing, as where the yardstick has no
// kernels all others seem fast.
const Odd = 5

// Yardstick is the codec by which the speed of a machine is taken out of another's.
func Yardstick(spec string) string {
	if spec == "bf16" {
		return "fp16"
	}
	return "bf16"
}

// beside compares the payloads of a codec with a table's rate. The machine's own speed is
// taken out by that of the yardstick, here and in the table. 0: the table lacks one of them,
// or has it at no time at all.
func beside(table *hardware.CodecTable, here, by *hardware.CodecRate) float64 {
	over := func(r *hardware.CodecRate) float64 {
		known := table.Find(r.Codec, r.Block, 0)
		if known == nil {
			return 0
		}
		n := r.Elements[0]
		return (r.Seconds(n, false) + r.Seconds(n, true)) / (known.Seconds(n, false) + known.Seconds(n, true))
	}
	if times := over(here) / over(by); times > 0 && !math.IsInf(times, 0) {
		return times
	}
	return 0
}

// Beside is how many times as long as a table has it a codec takes on a core of this machine,
// the machine's own speed taken out; 0: the table lacks it. It is measured once, in some 50 ms.
// Where it seems odd it is measured again, and the least counts.
func (m *Meter) Beside(table *hardware.CodecTable, f compress.Family) (float64, error) {
	spec := compress.Spec(f)
	if table.Find(spec, "matrix", 0) == nil {
		return 0, nil
	}
	by, err := compress.Parse(Yardstick(spec))
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if times, known := m.times[table.Name+" "+spec]; known {
		return times, nil
	}
	least := math.Inf(1)
	for n := 0; n == 0 || n <= tries && least >= Odd; n++ {
		cast, err := m.Measure(by)
		if err != nil {
			return 0, err
		}
		here, err := m.Measure(f)
		if err != nil {
			return 0, err
		}
		least = min(least, beside(table, here, cast))
	}
	if m.times == nil {
		m.times = map[string]float64{}
	}
	m.times[table.Name+" "+spec] = least
	return least, nil
}

// Odd lists the codecs that were billed by the table that comes with gradlab and take Odd
// times as long here, or longer, as the codecs take that were measured for it. A book without
// a meter has none.
func (b *Book) Odd() []string {
	if b == nil || b.meter == nil {
		return nil
	}
	var odd []string
	for _, used := range b.Used() {
		if used.Name != Default {
			continue
		}
		table, err := Load(Default)
		if err != nil {
			return nil
		}
		for _, r := range used.Rates {
			f, err := compress.Parse(r.Codec)
			if err != nil || slices.Contains(odd, r.Codec) {
				continue
			}
			if times, err := b.meter.Beside(table, f); err == nil && times >= Odd { // who runs the codec is told its error
				odd = append(odd, r.Codec)
			}
		}
	}
	return odd
}

// Misfit words what Odd lists, and what to type, for readers of results; "": nothing.
func (b *Book) Misfit() string {
	odd := b.Odd()
	if len(odd) == 0 {
		return ""
	}
	by := Yardstick(odd[0])
	return fmt.Sprintf("in this build %s took more than %d times as long as in that table, beside %s on the same core, so its virtual times are too short: device.codec=here bills what it takes here",
		strings.Join(odd, " and "), Odd, by)
}
