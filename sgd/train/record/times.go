package record

// Times is where a rank's time went, in seconds of the net's clock from the
// beginning of its program's work. Parts do not overlap: what goes on beside
// something else counts where the rank's main activity stood.
//
//   - Compute is forward and backward passes, their turn at the gate of cores
//     included; of a server, the updates it made.
//   - Encode is making payloads, Decode making something of those that came; of
//     a server, adding gradients up. On the virtual clock they are what keys
//     device.codec and constants.apply make of them.
//   - Wire is blocked while bytes moved, Wait is blocked for somebody who had not
//     sent yet; see comm.Traffic.Block for how nets tell the two apart, and what
//     they cannot.
//   - Rest is all else: collectives' sums and copies, updates, snapshots,
//     checkpoints.
//
// Where an exchange goes on beside the backward pass only the time in which the
// rank stood still for it is told, divided as its exchange spent that time.
type Times struct {
	Compute float64 `json:"compute"`
	Encode  float64 `json:"encode"`
	Decode  float64 `json:"decode"`
	Wire    float64 `json:"wire"`
	Wait    float64 `json:"wait"`
	Rest    float64 `json:"rest"`
}

// Busy is all but the rest.
func (t Times) Busy() float64 { return t.Compute + t.Encode + t.Decode + t.Wire + t.Wait }

// Minus is what was spent since o.
func (t Times) Minus(o Times) Times {
	return Times{t.Compute - o.Compute, t.Encode - o.Encode, t.Decode - o.Decode, t.Wire - o.Wire, t.Wait - o.Wait, t.Rest - o.Rest}
}
