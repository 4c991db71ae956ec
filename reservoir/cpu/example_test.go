package cpu_test

import (
	"fmt"
	"log"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Many streams in one engine: each has a slot, and a call advances all streams
// with samples.
func ExampleEngine() {
	net, err := reservoir.Draw(reservoir.Paper(1, reservoir.PaperOptions{Units: 3, Seed: 1, Input: 1}))
	if err != nil {
		log.Fatal(err)
	}
	engine, err := cpu.New(net, 100, cpu.Options{})
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
