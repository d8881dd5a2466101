package data

import (
	"fmt"
	"testing"
)

// A class that is called as a split is: it is said how its folder was taken.
func TestClassCalledTrain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"train", "test", "val"} {
		var files []entry
		for i := range 6 {
			files = append(files, entry{fmt.Sprintf("p/%s/%d.png", []string{"car", "plane", name}[i%3], i), shade(i)})
		}
		_, err := Open("pictures(path=p,size=8)", Options{Dir: put(t, files...)})
		refused(t, err, []string{fmt.Sprintf("A folder called %s is taken for that part of the set", name), "if it is a class"})
	}
	_, err := Open("pictures(path=p,size=8)", Options{Dir: put(t, entry{"p/train/0.png", shade(0)}, entry{"p/val/1.png", shade(1)})})
	refused(t, err, []string{"train"})
}
