package train

import (
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/staleness"
)

// checkServerless refuses what only servers give a meaning, in modes that have
// none: runs that differ in nothing else would be the same run under two names.
func (j *Job) checkServerless() error {
	if j.Served() {
		return nil
	}
	mode := Modes.Spec(j.Mode)
	if j.Policy != nil && !j.synchronous() {
		return fmt.Errorf("policy %s says when servers apply a gradient and answer, and mode %s has no servers; set policy=bsp, or use mode server, rudra, downpour or easgd", staleness.Policies.Spec(j.Policy), mode)
	}
	if !j.corrector().None {
		return fmt.Errorf("corrector %s is what servers do to late gradients, and mode %s has no servers; set corrector=none, or use mode server, rudra or downpour", staleness.Correctors.Spec(j.Corrector), mode)
	}
	if j.DownCodec != nil && !compress.Plain(j.DownCodec) {
		return fmt.Errorf("down_codec %s encodes parameters on their way from servers, and mode %s has no servers; set down_codec=raw (codec is for what workers send), or use mode server, rudra, downpour, easgd or sandblaster", compress.Families.Spec(j.DownCodec), mode)
	}
	if j.Gap {
		return fmt.Errorf("observe=gap lets servers measure how far the parameters have moved, and mode %s has no servers; take gap out of observe, or use mode server or downpour", mode)
	}
	if j.LogOrder {
		return fmt.Errorf("observe=order_log keeps the order in which words reach servers, and mode %s has no servers; take order_log out of observe, or use mode server or downpour", mode)
	}
	return nil
}
