package monitor_test

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A value outside the training range, and a sensor with a constant value.
func ExampleLimits_Watch() {
	training := reservoir.NewInputStatistics(1)
	training.Series().Add([]float32{20, 21, 19, 22, 22, 20})
	limits := monitor.NewLimits(1, training.Ranges())

	channels := make([]monitor.Channel, 1) // the state of the stream
	var found monitor.Findings
	for _, samples := range [][]float32{{20, 21, 23}, {20, 90, 21}, {21, 21, 21, 21, 21, 21, 21, 21, 21}} {
		limits.Watch(channels, samples, &found)
		outside, flat := found.In(0, len(samples), 0)
		fmt.Println("out of range:", outside, "flat:", flat)
	}
	// Output:
	// out of range: false flat: false
	// out of range: true flat: false
	// out of range: false flat: true
}
