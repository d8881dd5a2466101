// Package mean makes the mean of vectors over the workers of a run, through a codec, without
// servers, and holds the modes that consist of it: reduce, gather and localsgd.
//
// A reducer is one worker. It lives as long as the rank's program, with a shard of all
// parameters, an exchange of the codec for each piece of a tensor, and buckets of pieces that
// travel together. In each step the course of the job makes the gradient and exchanges its
// buckets: behind the pass, in order beside it, fused by cycles, or with priority for early
// layers. The content of an exchange is what the codec asks for, sums of raw values, or, in a run
// without weights, frames of the same sizes. What the exchanges come to replaces the gradient,
// and the first of the workers of a process makes the update of the parameters that all of them
// hold in common. LocalSGD exchanges the differences of replicas once a round in place of
// gradients. Checkpoints hold the common parameters once, and each worker's codecs.
package mean
