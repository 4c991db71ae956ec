package codec_test

import (
	"fmt"
	"log"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// A producer writes samples as an Arrow message, and the stage reads it.
func ExampleInputEncoder() {
	channels := []string{"temperature", "pressure"}
	encoder, err := codec.NewInputEncoder(channels, codec.InputOptions{Times: true, Ends: true})
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).UnixNano()
	message, err := encoder.Encode(&codec.Batch{
		Rows:  2,
		X:     []float32{20.5, 1, 21, 1.5}, // a row for each sample
		Times: []int64{noon, noon + int64(time.Second)},
		Ends:  []bool{false, true}, // the sequence ends with the second sample
	})
	if err != nil {
		log.Fatal(err)
	}

	decoder, err := codec.NewDecoder(codec.Schema{Channels: []string{"pressure", "temperature"}}) // the model's order
	if err != nil {
		log.Fatal(err)
	}
	var batch codec.Batch
	if err := decoder.Decode(message, &batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Rows, batch.X, batch.Ends)
	// Output: 2 [1 20.5 1.5 21] [false true]
}

// A decoder describes the error in any bytes.
func ExampleDecoder_Decode() {
	encoder, err := codec.NewInputEncoder([]string{"speed"}, codec.InputOptions{})
	if err != nil {
		log.Fatal(err)
	}
	message, err := encoder.Encode(&codec.Batch{Rows: 1, X: []float32{3}})
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := codec.NewDecoder(codec.Schema{Channels: []string{"speed", "torque"}})
	if err != nil {
		log.Fatal(err)
	}
	var batch codec.Batch
	fmt.Println(decoder.Decode(message, &batch))
	fmt.Println(decoder.Decode(message[:40], &batch))
	// Output:
	// codec: field "torque": want it or a list "x", got "speed"
	// codec: want metadata of 232 bytes, got 32: the message is cut short or damaged
}

// A consumer reads predictions, and how far to trust each.
func ExampleDecodePredictions() {
	encoder, err := codec.NewPredictionEncoder(codec.PredictionMeta{Model: "pump", Readout: "state", Labels: []string{"healthy", "worn"}, Columns: 1})
	if err != nil {
		log.Fatal(err)
	}
	message, err := encoder.Encode([]codec.Prediction{
		{Stream: "pump-7", Seq: 12, Row: 99, Time: codec.NoTime, Answer: outcome.Answer{Class: 0, Score: 1.25, Probability: 0.875, Scores: []float32{-1.25}}},
		{Stream: "pump-8", Seq: 12, Row: 99, Time: codec.NoTime, Answer: outcome.Answer{Class: 1, Score: 0.5, Scores: []float32{0.5}, Flags: outcome.FlagGap | outcome.FlagEarly}},
	})
	if err != nil {
		log.Fatal(err)
	}
	meta, predictions, err := codec.DecodePredictions(message)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range predictions {
		fmt.Printf("%s: %s, flags %q, integrity %s\n", p.Stream, meta.Labels[p.Class], p.Flags, p.Flags.Integrity())
	}
	// Output:
	// pump-7: healthy, flags "", integrity complete
	// pump-8: worn, flags "gap|early", integrity gap
}
