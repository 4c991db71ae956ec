package fit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/eusn-stream/eusn-stream/internal/fit"
)

// Six samples of two features; the regularization is chosen by leave-one-out.
func ExampleFit() {
	features := []float32{1, 0, 2, 1, 1.5, 0.5, 0, 1, 1, 2, 0.5, 1.5}
	labels := []int{0, 0, 0, 1, 1, 1}
	linear, report, err := fit.Fit(context.Background(), features, labels, []string{"right", "left"}, fit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scores := make([]float32, linear.Columns())
	for _, sample := range [][]float32{{3, 1}, {1, 3}} {
		linear.Scores(scores, sample)
		fmt.Println(linear.Classes[linear.Class(scores)])
	}
	accuracy, _ := report.LeftOut()
	fmt.Printf("left out in turn, %.0f %% of %d samples are predicted\n", 100*accuracy, report.Samples)
	// Output:
	// right
	// left
	// left out in turn, 100 % of 6 samples are predicted
}

// Samples come block by block: if there are more samples than features, memory does not grow
// with them.
func ExampleLearner() {
	labels := make([]int, 1000)
	for i := range labels {
		labels[i] = i % 2
	}
	learner, err := fit.NewLearner(3, []string{"even", "odd"}, labels, fit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer learner.Close()
	for i := 0; i < len(labels); i += 100 {
		var block []float32
		for k := i; k < i+100; k++ {
			block = append(block, float32(k%2), float32(k%3), float32(k%5))
		}
		if err := learner.Add(block); err != nil {
			log.Fatal(err)
		}
	}
	linear, report, err := learner.Solve(context.Background(), fit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Samples, "samples,", linear.Features(), "features, through the kernel:", report.Kernel)
	// Output: 1000 samples, 3 features, through the kernel: false
}
