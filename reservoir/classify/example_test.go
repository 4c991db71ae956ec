package classify_test

import (
	"context"
	"fmt"
	"log"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// Train on slices, then classify a stream sample by sample.
func Example() {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := classify.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := classify.NewStream(model)
	if err != nil {
		log.Fatal(err)
	}
	err = stream.Step(3, 5, 4, 6)
	class, probability := stream.Classify()
	fmt.Printf("%s %.2f %v\n", class, probability, err)
	// Output: rising 0.96 <nil>
}

// The steps of Train before it fits a readout: weights, input transform, features.
func ExampleFeatures() {
	series := [][]float32{{0, 1, 2, 3}, {1, 3, 4, 5}, {3, 2, 1, 0}, {5, 4, 3, 1}}
	net, err := reservoir.Draw(reservoir.DefaultBank(1).ForLength(4)) // samples of a series
	if err != nil {
		log.Fatal(err)
	}
	seen := reservoir.NewInputStatistics(1)
	for _, s := range series {
		seen.Series().Add(s)
	}
	net.Norm = seen.Norm(net.Spec)
	features, err := classify.Features(context.Background(), net, series)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(features)/len(series), "features of each of", len(series), "series")
	// Output: 15360 features of each of 4 series
}

// Classify series that are in memory.
func ExamplePredict() {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := classify.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	answers, err := classify.Predict(context.Background(), model, [][]float32{{1, 2, 4, 5}, {8, 5, 3, 1}})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range answers {
		fmt.Printf("%s %.2f\n", model.Readouts[0].Classes[a.Class], a.Probability)
	}
	// Output:
	// rising 1.00
	// falling 1.00
}

// Predictions while the samples come in, and a new sequence after them.
func ExampleStream() {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := classify.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := classify.NewStream(model)
	if err != nil {
		log.Fatal(err)
	}
	for _, samples := range [][]float32{{1, 2, 4, 5}, {8, 5, 3, 1}} {
		var classes []string
		for _, x := range samples {
			if err := stream.Step(x); err != nil {
				log.Fatal(err)
			}
			class, _ := stream.Classify()
			classes = append(classes, class)
		}
		fmt.Println(classes)
		stream.Reset()
	}
	// Output:
	// [rising rising rising rising]
	// [rising falling falling falling]
}
