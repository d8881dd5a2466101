package data

import (
	"fmt"
	"testing"
)

// A picture of a WebDataset whose label is none is refused with what its label is, whether
// the shards are named after splits or not.
func TestLabelsOfShardsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"json", "3", `x.json holds "3"; want an object`},
		{"json", "true", `x.json holds "true"`},
		{"json", "[3]", `x.json holds "[3]"`},
		{"json", `{"label": [3]}`, `x.json has [3] as label; want an object`},
		{"json", `{"cls": true}`, `x.json has true as cls`},
		{"json", `{"label": null}`, `x.json has null as label`},
		{"json", `{"caption": "a dog"}`, `x.json has no label`},
		{"json", `{"label": `, `x.json holds "{\"label\":"`},
		{"cls", "golden retriever\n", `x.cls holds "golden retriever"; want one word or number`},
		{"cls", "", `x.cls holds ""`},
	} {
		files := []entry{{"x.png", shade(9)}, {"x." + c.name, []byte(c.body)}}
		for i := range 4 {
			files = append(files, entry{fmt.Sprintf("%d.png", i), shade(i)}, entry{fmt.Sprintf("%d.cls", i), []byte{'0' + byte(i%2)}})
		}
		for _, dir := range []string{put(t, entry{"p/shard-0.tar", tarBytes(files...)}),
			put(t, entry{"p/train-0.tar", tarBytes(files...)}, entry{"p/val-0.tar", tarBytes(files[2:]...)})} {
			_, err := Open("pictures(path=p,size=8)", Options{Dir: dir, Cache: t.TempDir()})
			refused(t, err, []string{c.want, "x.png"})
		}
	}
}

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
