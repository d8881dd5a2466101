package experiments

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
)

// That a worker has joined is said once, though it joins again where another comes before
// it has begun; and again if it had died in between.
func TestWhoHasJoinedIsSaidOnce(t *testing.T) {
	var said []int
	members := []train.Membership{
		{Workers: []int{0, 1, 2}},
		{Workers: []int{0}, Left: []train.Leave{{Worker: 1}, {Worker: 2}}},
		{Workers: []int{0, 1}, Joined: []int{1}},
		{Workers: []int{0, 1, 2}, Joined: []int{1, 2}},
		{Workers: []int{0, 1, 2}, Joined: []int{1}, Left: []train.Leave{{Worker: 1}}},
	}
	for i := range members {
		said = append(said, newcomers(members[:i+1])...)
	}
	if want := []int{1, 2, 1}; !slices.Equal(said, want) {
		t.Errorf("said of %v, want %v", said, want)
	}
}
