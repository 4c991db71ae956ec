package sequence_test

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A prediction after every four samples, for any split into messages.
func ExampleSequencer_Cut() {
	policy := &reservoir.Policy{Kind: reservoir.Count, Length: 4}
	var s sequence.Sequencer // of one stream
	for _, samples := range []int{3, 6} {
		for _, c := range s.Cut(nil, policy, sequence.Samples{Count: samples}) {
			fmt.Printf("samples %d to %d, new sequence %v, prediction %v\n", c.From, c.To, c.Reset, c.Emit)
		}
		fmt.Println("end of the message")
	}
	// Output:
	// samples 0 to 3, new sequence true, prediction false
	// end of the message
	// samples 0 to 1, new sequence false, prediction true
	// samples 1 to 5, new sequence true, prediction true
	// samples 5 to 6, new sequence true, prediction false
	// end of the message
}
