// Package checkpoint holds the state that a run keeps over a stop: how it is named, collected,
// written and read.
//
// A State begins empty at a mark. Each rank makes a Keeper that saves, and hands it to its
// part, which names once everything it keeps; so the State fills with vectors, bytes and numbers
// under names made by Key. The observer merges the States of all ranks, and Encode writes the
// whole as safetensors. When the run goes on, Decode or Open reads the file, and a Keeper that
// loads gives each part, by the same lines, what it kept. Renamed turns the state of one rank
// into that of another, for a worker that joins.
package checkpoint
