package cli

import (
	"slices"
	"testing"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	got, err := numbers("1, 3,5-8,6")
	if err != nil || !slices.Equal(got, []int{1, 3, 5, 6, 7, 8}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"0", "3-1", "a", "1-", "1-99999999"} {
		if got, err := numbers(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}
