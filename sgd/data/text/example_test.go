package text_test

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/data/text"
)

// A text is cut into characters, and these into windows of three: after each the next.
func Example() {
	docs := func(each func(text.Document) error) error {
		return each(text.Document{Name: "rhyme", Text: []byte("abracadabra")})
	}
	of, err := text.Chars{}.Vocabulary(docs, nil)
	if err != nil {
		panic(err)
	}
	all, err := text.Tokenise(docs, of)
	if err != nil {
		panic(err)
	}
	w := text.NewWindows([]text.Tokens{all}, 1, 3, of.Len(), 0)
	tokens, labels := make([]int32, 3), make([]int32, 3)
	if err := w.Read(4, tokens, labels); err != nil {
		panic(err)
	}
	fmt.Println(of.Len(), "characters,", w.Len(), "windows; the fifth is", tokens, "before", labels)
	// Output: 5 characters, 8 windows; the fifth is [2 0 3] before [0 3 0]
}
