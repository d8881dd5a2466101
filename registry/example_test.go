package registry_test

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
)

// Shape is a kind of parts; Square is one, whose value here holds its defaults.
type Shape interface{ Area() float64 }

type Square struct{ Side float64 }

func (s Square) Area() float64 { return s.Side * s.Side }

var Shapes = registry.New[Shape]("shape")

var _ = Shapes.Add("square", "equal sides", Square{Side: 1})

// A table reads a part from the text that stands in recipes, and writes it.
func ExampleTable() {
	s, err := Shapes.Parse("square(side=3)")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(Shapes.Names(), s.Area(), Shapes.Spec(s))
	_, err = Shapes.Parse("sqare")
	fmt.Println(err)
	// Output:
	// [square] 9 square(side=3)
	// shape "sqare": no shape named "sqare"; did you mean "square"? there are: square
}
