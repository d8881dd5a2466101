// Package message holds the conversations of ranks: channels, the words of their messages, and
// the mail that arrives.
//
// A Channel is made once, by Say, when the program starts, and has the same number in every
// process. To send, it stamps a frame with the run of its Origin, lets the Word write itself
// into the header, and hands the frame to the Speaker's host. Where the frame arrives, the
// channel's tag selects it, Open reads the word back, and the Mail belongs to the receiver, who
// releases it. Which conversations there are, and what their words mean, is the affair of
// the rooms that hold them.
package message
