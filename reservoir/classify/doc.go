// Package classify is the library for programs that classify series and streams in memory:
// Train makes a model from labeled series, Predict classifies series with it, NewStream
// classifies a stream sample by sample. Features computes the features for your own
// readout. See the examples. A model may also come from a file: see reservoir.Load.
//
// # Files
//
//   - train.go: trains a classifier on series
//   - series.go: computes the features of series and predicts them
//   - stream.go: classifies one stream
package classify
