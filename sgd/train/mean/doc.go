// Package mean makes the mean of vectors over the workers of a run, through a codec, without
// servers, and holds the modes that consist of it: reduce, gather and localsgd.
//
// A Mean is made with the rank's part and lives as long. It holds a shard of all parameters, an
// exchange of the codec for each piece of a tensor, and buckets of pieces that travel together.
// The content of an exchange is what the codec asks for, sums of raw values, or, in a run without
// weights, frames of the same sizes. What the exchanges come to replaces the vector. Average is
// one exchange, behind what made the vector. Where a backward pass makes it, a plan says when
// buckets are exchanged: behind the pass, in order beside it, fused by cycles, or with priority
// for early layers.
//
// In modes reduce and gather a worker averages its gradient in every step, in mode localsgd the
// difference of its replica once a round. The first of the workers of a process then makes the
// update of the parameters that all of them hold in common. Checkpoints hold these once, and each
// worker's codecs. A mode with replicas of its own is a train.Peer with a Mean.
package mean
