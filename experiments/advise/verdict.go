package advise

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
)

// Best are the best way to use each codec and the best parameter servers, the
// shortest step first.
func Best(options []*Option) []*Option {
	var out []*Option
	seen := map[string]bool{}
	servers := false
	for _, o := range options {
		switch c := o.Config; {
		case !seen[c.Codec]:
			seen[c.Codec] = true
			servers = servers || c.Mode == "server"
		case c.Mode == "server" && c.Codec == "raw" && !servers:
			servers = true
		default:
			continue
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b *Option) int {
		if a.Time() < b.Time() {
			return -1
		}
		if a.Time() > b.Time() {
			return 1
		}
		return 0
	})
	return out
}

// Verdict is the answer.
type Verdict struct {
	Compress bool    // whether a codec pays
	Choice   *Option // what to do
	Raw      *Option // the best without a codec
	Why      string
}

// Decide gives the answer for options whose best are known. A codec has to
// shorten the step by more than the band, and, where evidence exists, to reach the
// accuracy sooner.
func Decide(best []*Option) Verdict {
	var raw *Option
	for _, o := range best {
		if !o.Compressed() {
			raw = o
			break
		}
	}
	fast := best[0]
	v := Verdict{Choice: raw, Raw: raw}
	gain := raw.Time() / fast.Time()
	if gain <= 1+Band {
		if i := slices.IndexFunc(best, (*Option).Compressed); i >= 0 {
			v.Why = fmt.Sprintf("the best without a codec takes %s a step, the best with one %s; a codec would have to gain more than predictions are sure of (%.0f %%).",
				progress.Seconds(raw.Time()), progress.Seconds(best[i].Time()), 100*Band)
		} else {
			v.Why = "no codec was considered."
		}
		return v
	}
	known := false
	choice, shortest := raw, raw.Time()
	for _, o := range best {
		if !o.Compressed() || math.IsNaN(o.Updates) {
			continue
		}
		known = true
		if t := o.Time() * o.Updates; t < shortest/(1+Band) {
			choice, shortest = o, t
		}
	}
	switch {
	case !known:
		v.Compress, v.Choice = true, fast
		v.Why = fmt.Sprintf("%s makes the step %.2g× shorter. No runs say how it learns: it pays as long as it takes fewer than %.2g× the updates.", fast.Config.Codec, gain, gain)
	case choice == raw:
		v.Why = fmt.Sprintf("codecs make the step up to %.2g× shorter, but none of those that runs know of reaches the accuracy sooner.", gain)
	default:
		v.Compress, v.Choice = true, choice
		v.Why = fmt.Sprintf("%s makes the step %.2g× shorter and takes %.2g× the updates: %.2g× sooner at the accuracy.",
			choice.Config.Codec, raw.Time()/choice.Time(), choice.Updates, raw.Time()/shortest)
		if math.IsNaN(fast.Updates) {
			v.Why += fmt.Sprintf(" The shortest step, %s with %s, is one whose learning no runs know of.", progress.Seconds(fast.Time()), fast.Config.Codec)
		}
	}
	return v
}
