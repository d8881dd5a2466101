package train

import (
	"testing"

	"github.com/gradlab/gradlab/comm"
)

// News of an earlier process of a worker does not remove the one that has come since, in
// whichever order it is heard, and news of an earlier epoch is none.
func TestNear(t *testing.T) {
	t.Parallel()
	dies := func(life uint32) func(*near) {
		return func(n *near) { n.died(&comm.PeerError{Rank: 1, Lost: true, Incarnation: life}) }
	}
	comes := func(life uint32) func(*near) { return func(n *near) { n.comes(1, life) } }
	leaves := func(n *near) { n.leaves(1) }
	for i, c := range []struct {
		news []func(*near)
		lost bool
	}{
		{nil, false}, {[]func(*near){dies(0)}, true}, {[]func(*near){dies(0), comes(1)}, false}, {[]func(*near){comes(1), dies(0)}, false},
		{[]func(*near){dies(0), comes(1), dies(1)}, true}, {[]func(*near){dies(1), comes(1)}, true}, {[]func(*near){comes(2), dies(0), dies(1)}, false},
		{[]func(*near){dies(3)}, true}, {[]func(*near){dies(3), comes(4)}, false},
		{[]func(*near){leaves}, true}, {[]func(*near){leaves, comes(0)}, false}, {[]func(*near){leaves, dies(0), comes(0)}, true}, {[]func(*near){leaves, comes(1), dies(0)}, false},
	} {
		n := &near{}
		for _, hear := range c.news {
			hear(n)
		}
		if lost := n.of[1].lost(); lost != c.lost {
			t.Errorf("case %d: lost %v", i, lost)
		}
	}
	n := &near{}
	n.hears(callWord{code: callCame, updates: 3, rank: 1})
	n.hears(callWord{code: callGoes, updates: 4, rank: 2})
	n.meets(&present{Epoch: 4, Life: 7, Lives: map[int]uint32{0: 0, 2: 5}}, 4)
	if life, _ := n.self(); life != 7 || n.lifeOf(2) != 5 || !n.of[1].lost() || n.of[2].lost() || !n.of[3].lost() {
		t.Errorf("of life %d it knows %+v", life, n.of)
	}
	if news := n.heard(); len(news) != 1 || news[0].rank != 2 || len(n.heard()) != 0 {
		t.Errorf("news %+v", news)
	}
}
