package reservoir_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Train on slices, then classify a stream while its samples come in.
func Example() {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := reservoir.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := reservoir.NewStream(model)
	if err != nil {
		log.Fatal(err)
	}
	err = stream.Step(3, 5, 4, 6)
	class, probability := stream.Classify()
	fmt.Printf("%s %.2f %v\n", class, probability, err)
	// Output: rising 0.96 <nil>
}

// A recipe is a few numbers; the weights follow from them on every machine.
func ExampleDraw() {
	net, err := reservoir.Draw(reservoir.Spec{Channels: 3, Units: 4, Seed: 7, Input: reservoir.Fixed(1)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(net.Spec.Kind, net.Spec.Features, net.Members[0].Input[:3])

	_, err = reservoir.Draw(reservoir.Spec{Channels: 3})
	fmt.Println(err)
	// Output:
	// eusn [last] [0.004065931 0.6929242 0.412538]
	// reservoir: spec: input: want a positive scale, got 0: no sample would reach a unit; set for example Input: reservoir.Fixed(1)
}

// One network of the paper, with its own scales.
func ExamplePaper() {
	spec := reservoir.Paper(6, reservoir.PaperOptions{Units: 200, Eps: 0.01, Gamma: 0.001, Recurrent: 1, Input: 0.1})
	fmt.Println(spec.Members, "network of", spec.Units, "units:", spec.FeatureCount(), "features")

	bank := reservoir.DefaultBank(6)
	fmt.Println(bank.Members, "networks of", bank.Units, "units:", bank.FeatureCount(), "features")
	// Output:
	// 1 network of 200 units: 200 features
	// 120 networks of 16 units: 15360 features
}

// The steps that Train takes, one by one: weights, input transform, features,
// readout.
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
	features, err := reservoir.Features(context.Background(), net, series)
	if err != nil {
		log.Fatal(err)
	}
	linear, report, err := readout.Fit(context.Background(), features, []int{0, 0, 1, 1}, []string{"up", "down"}, readout.Options{Standardise: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(features), "features of", report.Samples, "series, readout of", linear.Features(), "features")
	// Output: 61440 features of 4 series, readout of 15360 features
}

// Predictions while the samples come in, and a new sequence after them.
func ExampleStream() {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := reservoir.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := reservoir.NewStream(model)
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

// Many streams in one engine: each has a slot, and a call advances all that
// have samples.
func ExampleEngine() {
	net, err := reservoir.Draw(reservoir.Paper(1, reservoir.PaperOptions{Units: 3, Seed: 1, Input: 1}))
	if err != nil {
		log.Fatal(err)
	}
	engine, err := reservoir.NewCPU(net, 100, "auto", 0)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	samples := []float32{0.5, 1, -1, 0, 0.25} // one channel
	runs := []reservoir.Run{{Slot: 0, From: 0, To: 2}, {Slot: 99, From: 2, To: 5}}
	if err := engine.Advance(samples, runs, nil); err != nil {
		log.Fatal(err)
	}
	features := make([]float32, net.Spec.FeatureCount())
	for _, r := range runs {
		if err := engine.Features(r.Slot, features); err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Slot, features)
	}
	// Output:
	// 0 [-0.0030703554 -0.005386159 0.0011659475]
	// 99 [0.0015213183 0.0026240295 -0.00059239485]
}

// A model is one file, the same bytes on every machine.
func ExampleModel_Save() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	series := [][]float32{{0, 1}, {1, 3}, {3, 2}, {5, 4}}
	model, err := reservoir.Train(context.Background(), reservoir.Paper(1, reservoir.PaperOptions{Input: 1}), series, []string{"up", "up", "down", "down"})
	if err != nil {
		log.Fatal(err)
	}
	model.Channels = []string{"temperature"} // the column that the live stage reads
	path := filepath.Join(dir, "pump.safetensors")
	if err := model.Save(path); err != nil {
		log.Fatal(err)
	}
	loaded, err := reservoir.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(loaded.Channels, loaded.Readouts[0].Classes, loaded.Training.Series, "series")
	// Output: [temperature] [down up] 4 series
}
