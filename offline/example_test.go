package offline_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// vibrations are series of two machines: one turns slowly, one fast.
func vibrations() *archive.Dataset {
	d := &archive.Dataset{Name: "vibrations", Channels: []string{"x"}, Classes: []string{"fast", "slow"}}
	for i := range 40 {
		s := archive.Series{ID: fmt.Sprintf("run-%d", i), Split: archive.Train, Label: i % 2}
		if i >= 24 {
			s.Split = archive.Test
		}
		for t := range 30 {
			s.Values = append(s.Values, float32(math.Round(100*math.Sin(float64(i)+float64(t)*[]float64{1.1, 0.4}[s.Label]))))
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// Train on the training part of a data set and score the rest, with the cuts,
// predictions and flags that the live stage would make.
func ExampleRetrain() {
	d, ctx := vibrations(), context.Background()
	spec := reservoir.EulerBank(len(d.Channels))
	spec.Members = 4 // enough for two sines
	model, report, err := offline.Retrain(ctx, d, offline.RetrainOptions{Spec: spec}, nil)
	if err != nil {
		log.Fatal(err)
	}
	evaluation, err := offline.Evaluate(ctx, model, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("learned from %d series, %d of %d test series predicted\n", report.Series, evaluation.Correct, evaluation.Series)
	fmt.Println(evaluation.Confusion)
	// Output:
	// learned from 24 series, 16 of 16 test series predicted
	// [[8 0] [0 8]]
}
