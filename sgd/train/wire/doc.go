// Package wire turns vectors into frames and back: what a shard of the parameters consists of,
// which parts of it travel together, and how their payloads are encoded, noted and priced.
//
// Cuts lists the pieces of a model's tensors that each server holds, and Shards packs them. A
// Shard travels in Parts, a frame each. Every rank that sends or receives them makes a Packer by
// Content.NewPacker, with a codec for each piece, and keeps it as long as its program runs:
// codecs have state. A sender calls Frame or Push, which encodes a part of a Vector, or passes on
// its memory where the codec sends values as they are. A receiver calls Set or AddTo. A Tariff
// tells what both take on a virtual clock. In a run without weights a Packer encodes nothing:
// it reads the sizes of payloads from the Sizes that a run with weights noted. Ranks without
// servers exchange blocks by collectives, in one of Formats; AsksOf tells what for.
package wire
