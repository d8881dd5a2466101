package patience

import (
	"slices"
	"testing"
)

func TestFew(t *testing.T) {
	cases := []int{0, 1, 2, 3, 4}
	if got := Few(2, cases); !Long && !slices.Equal(got, []int{0, 2}) || Long && len(got) != 5 {
		t.Error(got)
	}
	if got := Few(9, cases); !slices.Equal(got, cases) {
		t.Error(got)
	}
}
