package readout_test

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/readout"
)

// A readout is plain numbers. Equal features give equal scores on every machine.
func ExampleLinear_Scores() {
	linear := &readout.Linear{
		Name: "state", Classes: []string{"healthy", "imbalance", "bearing"},
		Center:    []float32{0.5, 0.5},
		Weights:   []float32{-1, -1, 2, 0, 0, 2}, // a row for each class
		Intercept: []float32{0.1, 0, 0},
	}
	linear.Temperature = 1
	scores := make([]float32, linear.Columns())
	linear.Scores(scores, []float32{0.25, 1})
	fmt.Println(scores, linear.Classes[linear.Class(scores)], linear.Probability(scores))
	// Output:
	// [-0.15 -0.5 1] bearing 0.64944893
}
