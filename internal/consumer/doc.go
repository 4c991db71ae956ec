// Package consumer reads a job's output: its predictions (Predictions) and its dead
// letters (DeadLetters), in stored order, from any message on, and then live.
//
// It changes nothing and needs no stage. Package codec decodes predictions; package
// admin lists and resends dead letters.
//
// # Files
//
//   - consumer.go: reads predictions and dead letters; reads the clock of the server
//   - read.go: reads a NATS stream in order
//   - input.go: reads stored input messages of a time
//   - carried.go: reads predictions with features, each once
//   - shadow.go: reads predictions of shadows, each once
//   - names.go: names the parts of a stream's key
package consumer
