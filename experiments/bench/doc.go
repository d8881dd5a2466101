// Package bench measures how fast this machine computes and communicates,
// beside peers that run in the same command and take turns with us, so that
// what changes on the machine changes for both.
//
// Train takes whole training steps (forward, backward, update) of the standard
// set of models; its peer is PyTorch, in processes of its own that stand still
// while it is not their turn.
package bench
