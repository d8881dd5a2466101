package train

import "github.com/gradlab/gradlab/comm"

// What tests outside the package must know of frames to follow a run by them.
const (
	CodePush, CodeRoll, CodeSum = codePush, codeRoll, codeSum
)

var TagPush, TagPull, TagPeer, TagReply, TagRelay, TagSnapshot, TagWelcome, TagState = OnPush.Tag(), OnPull.Tag(), OnPeer.Tag(), OnReply.Tag(), onTree.Tag(), OnSnapshot.Tag(), onWelcome.Tag(), onState.Tag()

// ReadRoll reads which gradients are in the sum that comes next.
func ReadRoll(f comm.Frame) ([]comm.Header, error) { return readRoll(nil, f, 0, 1<<30) }

// Asked says whether the run has noted that it is to stop.
func Asked(j *Job) bool { return j.asked.Load() }
