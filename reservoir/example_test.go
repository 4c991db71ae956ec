package reservoir_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// A recipe is a few numbers that determine the weights on every machine.
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

// A model is one file, the same bytes on every machine.
func ExampleModel_Save() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	series := [][]float32{{0, 1}, {1, 3}, {3, 2}, {5, 4}}
	model, err := classify.Train(context.Background(), reservoir.Paper(1, reservoir.PaperOptions{Input: 1}), series, []string{"up", "up", "down", "down"})
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
